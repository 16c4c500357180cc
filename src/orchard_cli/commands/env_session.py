"""What the commands of `orchard env` share: the client, the key, and the words of the command line."""

import math
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..console import Console
from ..env.network.endpoint import ModelEndpoint
from ..env.remote.env import RemoteEnv
from ..env.remote.sandbox import RemoteSandbox
from ..env.sandbox import Spec
from ..errors import ConfigError, SandboxError

HINTS = {  # for what the server says without one
    "client.no_such_sandbox": "`orchard env ps` lists those that are there",
    "client.gone": "`orchard env ps` lists those that are there",
    "infra.sandbox_lost": "`orchard env ps` lists those that are there",
    "client.id_taken": "another --id, or end that one: `orchard env rm`",
    "client.no_such_file": "`orchard env exec SANDBOX 'ls -la'` shows what is there",
    "client.file_error": "`orchard env exec SANDBOX 'ls -la'` shows what is there",
    "client.is_a_directory": "give the name of a file in it",
    "client.bad_request": "`orchard env --help` says what each command takes",
    "client.forbidden": "it needs a key that may do this: see its scopes, or verbs",
    "capacity.quota": "end what is not needed: `orchard env ps`, `orchard env rm`",
    "infra.disk_full": "free some space on the server's machine",
    "infra.connection_lost": "`orchard env ps` says whether the server and its sandboxes are there",
}
AGAIN = {  # by what the server says that can help
    "same": "the same command may do better in a moment",
    "fresh": "the same command in another sandbox may do better",
    "never": "`orchard env --help` says what each command takes",
}


@contextmanager
def client(url: str, key_env: str) -> Iterator[RemoteEnv]:
    """Raises `SandboxError`, always with a line that says what to do."""
    try:
        with RemoteEnv(url, os.environ.get(key_env, "")) as env:
            yield env
    except SandboxError as error:
        if error.fault.code in ("client.no_key", "client.wrong_key"):
            error.hint = f"export {key_env}=… with a key of {url}"
        error.hint = error.hint or HINTS.get(error.fault.code, "") or AGAIN.get(error.fault.retry, "")
        raise


def open_(env: RemoteEnv, box: str) -> RemoteSandbox:
    return env.open(Spec()) if box == "new" else env.attach(box)


def seconds(option: str, value: float, *, most: float = math.inf) -> float:
    """Raises `ConfigError` for what is no time."""
    if not (0 < value <= most and math.isfinite(value)):
        bound = f" and at most {most:.0f}" if most < math.inf else ""
        raise ConfigError(f"{option} is above 0{bound}, not {value:g}", hint=f"{option} 3600")
    return value


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
    from ..env.contained.image import check, pin

    name, equals, path = text.partition("=")
    place, digest = pin(path)
    if held and place.exists():
        check(place, digest)  # and again when it is read
    if not equals or not path or not (held or Path(path).exists()):
        raise ConfigError(
            f"--image {text}: not NAME=PATH of something that exists", hint="--image mini=/srv/roots/mini"
        )
    return name, path


def model_of(text: str) -> tuple[str, ModelEndpoint]:
    url, _, variable = text.partition("=")
    return url, ModelEndpoint(url, variable)
