"""`orchard env serve`: the sandboxes of this machine, over REST."""

import errno
import os
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
    model: Annotated[list[str] | None, typer.Option(metavar="URL[=VAR]", help="A model they may call.")] = None,
    database: Annotated[str, typer.Option(help="postgresql://…, where several servers share one.")] = "",
    lease_s: Annotated[float, typer.Option(help="Seconds that an unused sandbox is kept by default.")] = 900.0,
    advertise: Annotated[str, typer.Option(help="Address under which clients reach this server of several.")] = "",
    dead_s: Annotated[float, typer.Option(help="Silence after which another server on the database is dead.")] = 30.0,
    outlive_s: Annotated[
        float, typer.Option(help="Seconds that sandboxes outlive a crash of this server, to be found by the next.")
    ] = 0.0,
) -> None:
    """Serve sandboxes of this machine over REST until stopped; then close them all."""
    from ..env.local.lasting import Lasting
    from ..env.service.live import Terms
    from ..env.service.serve import Place
    from ..env.service.service import Settings
    from .env_session import images_of, model_of, server_key, state_folder

    console = Console()
    settings = Settings(
        _made(state or state_folder(), database),
        "" if no_auth else server_key(console, KEY),
        auth=not no_auth,
        database=database,
        images=images_of(image or (), isolation),
        models=dict(map(model_of, model or ())),
        terms=Terms(lease_s=lease_s),
        url=advertise,
        dead_s=dead_s,
    )
    lasting = Lasting(settings.state, max(0.0, outlive_s))
    how = {"isolation": isolation, "network": network, "allow": tuple(allow or ()), "lasting": lasting}
    _run(console, settings, Place(host, port), how)


def _made(state: Path, database: str) -> Path:
    """The folder. Raises `ConfigError` for one that cannot hold anything, and for a database that is none of ours."""
    if database and not database.startswith(("postgresql://", "postgres://")):
        scheme = database.partition(":")[0]
        raise ConfigError(f"--database {scheme}:… is not PostgreSQL", hint="--database postgresql://…")
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(state, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        hint = "--state FOLDER, which this user may write to"
        raise ConfigError(f"--state {state} cannot be used: {error.strerror}", hint=hint) from error
    return state


def _run(console: Console, settings: "Settings", place: "Place", how: Mapping[str, Any]) -> None:
    from ..env.contained.choose import any_tier
    from ..env.service.serve import address, listen, running

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
