"""From what a client asks for to what the back end is asked for."""

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, SandboxError
from ..network.endpoint import CALLS, ModelEndpoint
from ..sandbox import Bind, Limits, Spec
from .bodies import ModelBody, SandboxBody
from .problem import refused
from .trees import Trees

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = "orchard/"  # prefix of labels that only the service sets
MAX_LABELS = 32
NEW = "new"  # `orchard env exec new …`: one of this name could never be meant


@dataclass
class SameHost:
    """Whoever can read this file, which only our user may, is on this machine and may name its paths anyway."""

    folder: Path

    def __post_init__(self) -> None:
        """The same as before on this folder: clients of a server that crashed go on with the next one."""
        self.path = self.folder / "same-host"
        try:
            self.token = self._kept()
        except OSError:
            self.path.unlink(missing_ok=True)
            self.token = secrets.token_hex(32)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(self.token)

    def _kept(self) -> str:
        with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            facts, token = os.fstat(file.fileno()), file.read()
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077 or len(token) != 64:
            raise PermissionError("others can read it, or it is not whole")
        return token

    def proven(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self.token.encode())


PINNED = "the operator pins an image with --image NAME=IMAGE@sha256:HEX"


@dataclass(frozen=True)
class Images:
    """Name → what the back end opens for it. Only these may be used."""

    names: dict[str, str]

    def find(self, name: str) -> str:
        base, at, digest = name.partition("@")
        if base in self.names:
            kept = self.names[base]
            if at and (not digest or kept.partition("@")[2] != digest):
                raise refused(f"the image `{base}` is not offered by that digest", "client.unknown_image", hint=PINNED)
            return kept
        raise refused(
            f"the image `{name}` is not offered here",
            "client.unknown_image",
            hint=f"one of: {', '.join(sorted(self.names))}; the operator adds others with --image NAME=PATH",
        )


@dataclass(frozen=True)
class Specs:
    """Reads bodies of one service."""

    images: Images
    trees: Trees
    host: SameHost
    models: Mapping[str, ModelEndpoint]

    def read(self, body: SandboxBody, tenant: str, proof: str) -> tuple[Spec, list[Path]]:
        """The spec, and the uploaded trees that it takes (to be released when the sandbox is gone)."""
        check_labels(body.labels)
        check_id(body.id)
        for name, value in body.env.items():
            if not VARIABLE.fullmatch(name) or "\0" in value:
                raise refused(f"`{name!s:.80}` cannot be an environment variable", "client.bad_request")
        limits = body.limits
        if limits and min(limits.memory_mb, limits.pids, limits.cpus, limits.disk_mb) < 0:
            raise refused("a limit is less than 0", "client.bad_request")
        image, model = self.images.find(body.image), self._model(body.model, proof)
        taken: list[Path] = []
        try:
            tree = self._place(body.tree, tenant, proof, taken) if body.tree else None
            binds = tuple(Bind(self._place(b.source, tenant, proof, taken), _target(b.target)) for b in body.binds)
        except BaseException:
            for place in taken:
                self.trees.release(place)
            raise
        own = Limits(limits.memory_mb, limits.pids, limits.cpus, limits.disk_mb) if limits else Limits()
        return Spec(tree, body.workdir, image, binds, dict(body.env), own, body.network, body.allow, model), taken

    def _model(self, body: ModelBody | None, proof: str) -> ModelEndpoint | None:
        """The operator's; the client's own only if it proved to be on this host, for we would call anybody for it."""
        if body is None:
            return None
        if body.base_url in self.models:
            return self.models[body.base_url]
        if not self.host.proven(proof):
            raise refused(
                f"the model at {body.base_url} is not offered here",
                "client.forbidden",
                hint="the operator adds it with --model URL=KEY_VARIABLE",
            )
        try:
            calls = body.calls or CALLS
            return ModelEndpoint(body.base_url, body.api_key_env, body.auth, calls, body.headers)
        except ConfigError as error:
            raise refused(str(error), "client.bad_request", hint=error.hint) from error

    def _place(self, source: str, tenant: str, proof: str, taken: list[Path]) -> Path:
        kind, _, rest = source.partition(":")
        if kind == "sha256":
            place = self.trees.take(tenant, rest)
            taken.append(place)
            return place
        if kind != "host":
            raise refused("a source is `sha256:<hash>` or `host:<path>`", "client.bad_request")
        if not self.host.proven(proof):
            raise refused(
                "a path of this host may be named only by who proves to be on it",
                "client.forbidden",
                hint="upload the directory: PUT /v1/trees/<sha256>",
            )
        path = Path(rest)
        if not path.is_absolute() or not path.exists():
            raise refused(f"there is no {rest} on the server's host", "client.no_such_tree")
        return path


def new_id(prefix: str = "sb") -> str:
    return f"{prefix}-{secrets.token_hex(10)}"


def check_id(id: str) -> None:
    """Of a sandbox that a client names itself; empty where it does not."""
    if id and not LABEL.fullmatch(id):
        raise refused(
            "an id is up to 63 lower-case letters, digits and `-`, and begins and ends with one of the former",
            "client.bad_request",
            hint="such as box-1; without one it is made up",
        )
    if id == NEW:
        text = f"`{NEW}` is no id: it asks the command line for a new sandbox"
        raise refused(text, "client.bad_request", hint="such as box-1; without one it is made up")


def taken(id: str) -> SandboxError:
    """The same words whoever holds it: ids are the server's, and whose they are is nobody else's business."""
    hint = "choose another, or give none: one is made up then"
    return refused(f"the id {id} is taken", "client.id_taken", hint=hint)


def check_labels(labels: dict[str, str]) -> None:
    if len(labels) > MAX_LABELS or any(len(k) > 63 or len(v) > 255 for k, v in labels.items()):
        raise refused(f"at most {MAX_LABELS} labels, of 63 and 255 characters", "client.bad_request")
    if any(key.startswith(RESERVED) for key in labels):
        raise refused(f"labels that begin with `{RESERVED}` are the service's own", "client.bad_request")


def _target(target: str) -> str:
    if not target.startswith("/") or ".." in target.split("/") or "\0" in target:
        raise refused("the target of a bind is an absolute path without `..`", "client.bad_request")
    return target
