"""`orchard env create|rm`: sandboxes that stay, for `ps`, `exec`, `shell` and `cp` to act on."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Console
from ..errors import ConfigError
from .env_serve import HERE, KEY

Url = Annotated[str, typer.Option(envvar="ORCHARD_ENV_URL", help="Address of the server.")]
KeyEnv = Annotated[str, typer.Option(help="Name of the variable that holds the API key.")]


def create(
    url: Url = HERE,
    key_env: KeyEnv = KEY,
    id: Annotated[str, typer.Option("--id", help="Its name; else one is made up.")] = "",
    tree: Annotated[Path | None, typer.Option(help="A directory here that its work directory begins as.")] = None,
    image: Annotated[str, typer.Option(help="The root that it gets; the server says which there are.")] = "host",
    network: Annotated[str, typer.Option(help="none, allowlist or open; else as the server says.")] = "",
    allow: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As env.allow; repeatable.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeatable.")] = None,
    lifetime_s: Annotated[float, typer.Option(help="Seconds after which it is ended.")] = 3600.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Make a sandbox that stays, and print its id."""
    import msgspec

    from ..env.sandbox import Spec
    from ..env.service.bodies import Lifetime
    from .env_session import client, seconds

    if id == "new":
        raise ConfigError("--id new: that name stands for one of a command's own", hint="--id new-1")
    if network not in ("", "none", "allowlist", "open"):
        raise ConfigError(f"--network {network} is not known", hint="none, allowlist or open")
    lifetime_s = seconds("--lifetime-s", lifetime_s)
    level: Any = "allowlist" if allow and not network else network
    kept = Lifetime(lease_s=lifetime_s, max_lifetime_s=lifetime_s)
    with client(url, key_env) as env:
        body = env.body(Spec(tree=tree, image=image, network=level, allow=tuple(allow or ())))
        view = env.make(msgspec.structs.replace(body, id=id, labels=dict(map(label_of, label or ())), lifetime=kept))
    console, granted = Console(json_only=json), view.expires - view.created
    if granted + 1.0 < lifetime_s:
        console.note(f"{view.id} is kept for {granted:,.0f} s, the most that this server grants")
    console.data(msgspec.to_builtins(view)) if json else console.say(view.id)


def rm(
    boxes: Annotated[list[str], typer.Argument(metavar="SANDBOX...", help="Ids.")],
    url: Url = HERE,
    key_env: KeyEnv = KEY,
) -> None:
    """End sandboxes and every trace of them."""
    from ..env.remote.client import path_of
    from .env_session import client

    with client(url, key_env) as env:
        for box in boxes:
            env.client.ask("DELETE", path_of(box), timeout_s=120.0)


def label_of(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--label {text}: not KEY=VALUE", hint="--label run=7")
    return key, value
