"""`env=remote`: an environment that another process, or another machine, serves."""

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from ...errors import SandboxError
from ..network.endpoint import ModelEndpoint
from ..sandbox import Bind, Limits, Spec
from ..service.bodies import (
    BindBody,
    LeaseBody,
    Lifetime,
    LimitsBody,
    ModelBody,
    Network,
    Renewed,
    SandboxBody,
    SandboxView,
    TokenBody,
    TokenView,
)
from ..service.problem import of_view
from .answers import capabilities, decoded
from .client import Client, path_of
from .sandbox import RemoteSandbox
from .tree import Hashes

DEFAULT = Limits()
LEASE_S = 90.0
FIRST_S = 3.0  # patience with a server that was never reached; later it is `client.AGAIN_S`
PROOF = "X-Orchard-Host-Proof"
log = logging.getLogger("orchard.env")


class RemoteEnv:
    """See `Env`. Leases of everything that is open are renewed in the background, all in one request.

    On the server's machine, as its user, directories are named; else they are uploaded, once for each content.
    `share` False uploads always.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        limits: Limits = DEFAULT,
        network: Network = "",
        allow: tuple[str, ...] = (),
        labels: dict[str, str] | None = None,
        share: bool = True,
    ):
        self.client = Client(url, key)
        self._limits, self._labels = limits, dict(labels or {})
        with closing(Client(url, key, again_s=FIRST_S)) as first:
            self._capabilities = capabilities(first)
        bound = self._capabilities["env"].get("isolation") != "none"  # else nothing can be kept from the network
        self._network, self._allow = (network, allow) if bound else ("", ())
        self._proof = _proof(self._capabilities.get("same_host", "")) if share else ""
        self._hashes = Hashes()
        self._open: dict[str, RemoteSandbox] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=_renewing, args=(weakref.ref(self), self._stop), daemon=True)
        self._renewer.start()
        self._audit = weakref.finalize(self, _left, self.client, self._open)

    def open(self, spec: Spec) -> RemoteSandbox:
        return self.adopt(self.make(self.body(spec)))

    def make(self, body: SandboxBody) -> SandboxView:
        """One that is there, and left to itself: neither renewed nor closed by us."""
        if self._stop.is_set():
            raise _closed()
        headers = {PROOF: self._proof} if self._proof else {}
        raw = self.client.ask(
            "POST", "/v1/sandboxes", msgspec.json.encode(body), query={"wait": 60}, headers=headers, timeout_s=120.0
        )
        view = msgspec.json.decode(raw, type=SandboxView)
        while view.state == "creating":
            raw = self.client.ask("GET", path_of(view.id), query={"wait": 50}, timeout_s=90.0)
            view = msgspec.json.decode(raw, type=SandboxView)
        if view.fault:
            raise of_view(view.fault)
        return view

    def body(self, spec: Spec) -> SandboxBody:
        """What the server is asked for; uploads what it lacks."""
        limits = spec.limits if spec.limits != DEFAULT else self._limits
        return SandboxBody(
            image=spec.image,
            workdir=spec.workdir,
            tree=self._source(spec.tree) if spec.tree else "",
            binds=tuple(BindBody(source=self._source(bind.source), target=bind.target) for bind in self._binds(spec)),
            env=dict(spec.env),
            limits=LimitsBody(memory_mb=limits.memory_mb, pids=limits.pids, cpus=limits.cpus, disk_mb=limits.disk_mb)
            if limits != DEFAULT
            else None,
            network=spec.network or self._network,
            allow=spec.allow or (() if spec.network else self._allow),
            model=_model(spec.model),
            labels=self._labels,
            lifetime=Lifetime(lease_s=LEASE_S),
        )

    def _binds(self, spec: Spec) -> tuple[Bind, ...]:
        from ..local.binds import completed

        return completed(spec.binds)

    def _source(self, folder: Path) -> str:
        folder = folder.resolve()
        if self._proof:
            return f"host:{folder}"
        if not folder.is_dir():
            raise SandboxError(
                f"{folder} is not a directory, and only directories are sent to a server",
                code="client.bad_spec",
                attributable="client",
                effect="none",
                retry="never",
            )
        if hash := self._hashes.known(folder):
            with suppress(SandboxError):
                self.client.ask("GET", f"/v1/trees/{hash}")
                return f"sha256:{hash}"
        file, hash = self._hashes.pack(folder)
        with file:
            if not self._has(hash):
                size = {"Content-Length": str(os.fstat(file.fileno()).st_size)}
                self.client.ask("PUT", f"/v1/trees/{hash}", file, headers=size, timeout_s=3600.0)
        return f"sha256:{hash}"

    def _has(self, hash: str) -> bool:
        try:
            self.client.ask("GET", f"/v1/trees/{hash}")
        except SandboxError as error:
            if error.fault.code != "client.no_such_tree":
                raise
            return False
        return True

    def adopt(self, view: SandboxView) -> RemoteSandbox:
        """A sandbox that exists, from now on renewed and closed by us."""
        box = RemoteSandbox(self.client, view, self.adopt, self._forget)
        with self._lock:
            self._open[view.id] = box
        return box

    def attach(self, id: str) -> RemoteSandbox:
        """One that somebody else made and keeps."""
        raw = self.client.ask("GET", path_of(id), query={"wait": 30})
        view = decoded(self.client.url, raw, SandboxView)
        return RemoteSandbox(self.client, view, self.adopt, lambda _: None)

    def token(self, id: str, verbs: Sequence[str] = ("look", "exec", "files"), ttl_s: float = 600.0) -> str:
        """A key for that sandbox alone, a few verbs and a time, to be given away: `Client(url, token)`."""
        body = msgspec.json.encode(TokenBody(sandbox=id, verbs=tuple(verbs), ttl_s=ttl_s))
        return msgspec.json.decode(self.client.ask("POST", "/v1/tokens", body), type=TokenView).token

    def _forget(self, id: str) -> None:
        with self._lock:
            self._open.pop(id, None)

    def renew(self) -> tuple[str, ...]:
        """Renew the leases of all that is open; the ids that the server no longer knows."""
        with self._lock:
            ids = tuple(self._open)
        if not ids:
            return ()
        body = msgspec.json.encode(LeaseBody(ids=ids))
        return decoded(self.client.url, self.client.ask("POST", "/v1/leases", body), Renewed).unknown

    def describe(self) -> dict[str, object]:
        env: dict[str, object] = self._capabilities["env"]
        paths = "named" if self._proof else "uploaded"
        return {**env, "kind": "remote", "url": self.client.url, "server": self._capabilities["server"], "trees": paths}

    def close(self) -> None:
        """Close every sandbox that is still open."""
        self._stop.set()
        with self._lock:
            left = list(self._open.values())
        _close(self.client, left)
        self._audit.detach()
        self.client.close()

    def __enter__(self) -> "RemoteEnv":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _model(endpoint: ModelEndpoint | None) -> ModelBody | None:
    if endpoint is None:
        return None
    return ModelBody(**{name: getattr(endpoint, name) for name in ModelBody.__struct_fields__})


def _renewing(env: "weakref.ref[RemoteEnv]", stop: threading.Event) -> None:
    while not stop.wait(LEASE_S / 3):
        living = env()
        if living is None:
            return
        with suppress(SandboxError):
            living.renew()
        del living


def _left(client: Client, left: dict[str, RemoteSandbox]) -> None:
    """At exit of a process that did not close its environment: what it left is closed, and told."""
    if not left:
        return
    log.warning("%d sandboxes were left open at exit and are closed now: %s", len(left), ", ".join(sorted(left)[:5]))
    _close(client, list(left.values()))
    client.close()


def _close(client: Client, boxes: list[RemoteSandbox]) -> None:
    """A server that cannot be reached is not waited for: leases end what it still holds."""
    client.patience(FIRST_S)
    for box in boxes:
        try:
            box.close()
        except SandboxError as error:
            if error.fault.code in ("infra.server_unreachable", "infra.connection_lost"):
                log.warning("%d sandboxes could not be closed: %s; their leases end them", len(boxes), error)
                return


def _proof(path: str) -> str:
    """What only a process on the server's machine with its rights can read."""
    try:
        return Path(path).read_text() if path else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _closed() -> SandboxError:
    return SandboxError("the environment is closed", code="client.closed", effect="none", retry="never")
