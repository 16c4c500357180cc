"""`orchard env serve`: the sandboxes of this machine, over REST."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Console
from ..errors import ConfigError

if TYPE_CHECKING:
    from ..env.service.serve import Place
    from ..env.service.service import Settings

PORT = 8700
KEY = "ORCHARD_ENV_API_KEY"
LONGEST_S = 10 * 366 * 86_400
HERE = f"http://127.0.0.1:{PORT}"


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0: any free one.")] = PORT,
    state: Annotated[Path | None, typer.Option(help="Folder of its store, audit log and uploaded trees.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="No keys; on a loopback address only.")] = False,
    isolation: Annotated[str, typer.Option(help="As env.isolation.")] = "auto",
    network: Annotated[str, typer.Option(help="As env.network.")] = "none",
    image: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help="What `image` may name.")] = None,
    allow: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As env.allow; repeatable.")] = None,
    network_log: Annotated[Path | None, typer.Option(help="File of the proxy's decisions, a JSON line each.")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="URL[=VAR]", help="A model they may call.")] = None,
    database: Annotated[str, typer.Option(help="postgresql://…, where several servers share one.")] = "",
    lease_s: Annotated[float, typer.Option(help="Seconds that an unused sandbox is kept by default.")] = 900.0,
    advertise: Annotated[str, typer.Option(help="Address under which clients reach this server of several.")] = "",
    dead_s: Annotated[float, typer.Option(help="Silence after which another server on the database is dead.")] = 30.0,
    outlive_s: Annotated[
        float, typer.Option(help="Seconds that sandboxes outlive a crash, for the next server.")
    ] = 0.0,
) -> None:
    """Serve sandboxes of this machine over REST until stopped; then close them all."""
    from ..env.local.lasting import Lasting
    from ..env.service.live import granted
    from ..env.service.serve import Place
    from ..env.service.service import Settings
    from .env_session import images_of, model_of, server_key, state_folder

    settings = Settings(
        (state or state_folder()).resolve(),  # clients on this machine are told of it
        "" if no_auth else server_key(Console(), KEY),
        auth=not no_auth,
        database=database,
        images=images_of(image or (), isolation),
        models=dict(map(model_of, model or ())),
        terms=granted(_seconds("--lease-s", lease_s, 1.0)),
        url=advertise,
        dead_s=_seconds("--dead-s", dead_s, 3.0),  # a living one writes every second
    )
    lasting = Lasting(settings.state, _seconds("--outlive-s", outlive_s, 0.0))
    how = {"isolation": isolation, "network": network, "allow": tuple(allow or ()), "lasting": lasting}
    _run(settings, Place(host, port), {**how, "network_log": network_log})


def _seconds(name: str, value: float, least: float) -> float:
    if not least <= value <= LONGEST_S:  # neither is a `nan`
        raise ConfigError(f"{name} {value:g}: not between {least:g} and {LONGEST_S} seconds", hint=f"{name} 60")
    return value


def _run(settings: "Settings", place: "Place", how: Mapping[str, Any]) -> None:
    from ..env.contained.choose import any_tier
    from ..env.service.serve import address, listen, running
    from ..env.service.service import usable

    console = Console()
    for endpoint in settings.models.values():
        endpoint.key()  # better said now than to each sandbox that calls it
    usable(settings.state)
    listener = listen(place, settings.auth)
    settings = replace(settings, url=settings.url or address(listener))
    try:
        with any_tier(**how) as env, running(env, settings, listener) as server:
            told = env.describe()
            console.note(f"isolation: {told['isolation']}, network: {how['network']}, state: {settings.state}")
            if left := getattr(env, "left", ()):
                console.note(f"{len(left)} sandboxes outlived a server before this one")
            console.say(server.url)
            sys.stdout.flush()
            server.wait()
    except KeyboardInterrupt:
        console.note("stopped; every sandbox is closed")
