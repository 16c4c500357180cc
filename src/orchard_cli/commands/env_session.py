"""What the commands of `orchard env` share: the client, the key, and how a command's output is shown."""

import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..console import Console
from ..env.execution import Event
from ..env.network.endpoint import ModelEndpoint
from ..env.remote.env import RemoteEnv
from ..env.remote.sandbox import RemoteSandbox
from ..env.sandbox import Spec
from ..errors import ConfigError, SandboxError


def client(url: str, key_env: str) -> RemoteEnv:
    """Raises `SandboxError`; where the key is missing or wrong, with the line that sets it."""
    try:
        return RemoteEnv(url, os.environ.get(key_env, ""))
    except SandboxError as error:
        fault = error.fault
        if fault.code not in ("client.no_key", "client.wrong_key"):
            raise
        hint = f"export {key_env}=… with a key of {url}"
        raise SandboxError(str(error), code=fault.code, attributable="client", effect="none", hint=hint) from error


def open_(env: RemoteEnv, box: str) -> RemoteSandbox:
    return env.open(Spec()) if box == "new" else env.attach(box)


def show(events: Iterable[Event]) -> int:
    """Print what comes; the exit code (128 + the signal, 124 for a timeout of ours)."""
    code = 0
    for event in events:
        if event.type in ("out", "err"):
            stream = sys.stdout.buffer if event.type == "out" else sys.stderr.buffer
            stream.write(event.data)
            stream.flush()
        elif event.type == "exit":
            ended: Any = event.more
            if ended["reason"] == "agent_lost":
                raise SandboxError("the sandbox died while the command ran", code="infra.sandbox_lost")
            known = {"timeout": 124, "oom": 137}.get(ended["reason"])
            code = known or (ended["exit_code"] if ended["exit_code"] is not None else 128 + (ended["signal"] or 0))
    return code


def read_line(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        return None


def state_folder() -> Path:
    from platformdirs import user_state_path

    return user_state_path("orchard") / "env"


def server_key(console: Console, name: str) -> str:
    """The operator's, or a new one that is shown once."""
    if key := os.environ.get(name, ""):
        return key
    key = secrets.token_urlsafe(24)
    console.note(f"a key for this run, since {name} is not set: export {name}={key}")
    return key


def images_of(texts: Iterable[str], isolation: str) -> dict[str, str]:
    """What a server of that tier lets its clients ask for."""
    from ..env.contained.choose import TIERS

    return {"host": "host"} | dict(image_of(text, held=isolation in TIERS) for text in texts)


def image_of(text: str, *, held: bool = False) -> tuple[str, str]:
    """With `held`, what is no path may be an image that an engine holds: whoever opens it will see."""
    name, equals, path = text.partition("=")
    if not equals or not path or not (held or Path(path).exists()):
        raise ConfigError(
            f"--image {text}: not NAME=PATH of something that exists", hint="--image mini=/srv/roots/mini"
        )
    return name, path


def model_of(text: str) -> tuple[str, ModelEndpoint]:
    url, _, variable = text.partition("=")
    return url, ModelEndpoint(url, variable)
