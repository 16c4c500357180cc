"""`orchard env serve|create|ps|exec|shell|cp|rm|gc|bench|doctor`: the sandbox service and its client."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Console
from ..errors import ConfigError
from .env_create import KeyEnv, Url, create, rm
from .env_serve import HERE, KEY, serve

app = typer.Typer(help="Sandboxes for agents, served.", no_args_is_help=True, pretty_exceptions_enable=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Box = Annotated[str, typer.Argument(metavar="SANDBOX", help="A sandbox's id, or `new`.")]


app.command("serve")(serve)
app.command("create")(create)


@app.command("ps")
def ps(
    url: Url = HERE,
    key_env: KeyEnv = KEY,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only with this label.")] = None,
    json: Json = False,
) -> None:
    """List the sandboxes of the server."""
    import time

    import msgspec

    from ..env.service.bodies import Page, SandboxView
    from .env_session import client

    console, env, after = Console(json_only=json), client(url, key_env), ""
    found: list[SandboxView] = []
    with env:
        while True:
            query = {"limit": 1000, "after": after} | ({"label": (label or [])[-1]} if label else {})
            page = msgspec.json.decode(env.client.ask("GET", "/v1/sandboxes", query=query), type=Page)
            found += page.items
            if not (after := page.next):
                break
    if json:
        console.data(msgspec.to_builtins(found))
        return
    now = time.time()
    rows = [
        (v.id, v.state, v.image, v.tenant, f"{now - v.created:.0f}", f"{max(0.0, v.expires - now):.0f}", _labels(v))
        for v in found
    ]
    console.table(
        f"{len(found)} sandboxes at {url}", ("id", "state", "image", "tenant", "age s", "lease s", "labels"), rows
    )


@app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_(
    box: Box,
    command: Annotated[list[str], typer.Argument(help="argv; one word is a bash script.")],
    url: Url = HERE,
    key_env: KeyEnv = KEY,
    timeout_s: Annotated[float, typer.Option(help="Seconds.")] = 600.0,
) -> None:
    """Run a command; its output as it comes, its exit code as ours."""
    from .env_session import client, open_, show

    with client(url, key_env) as env:
        opened = open_(env, box)
        try:
            wanted: Any = command if len(command) > 1 else command[0]
            code = show(opened.start(wanted, timeout_s=timeout_s).events())
        finally:
            if box == "new":
                opened.close()
    raise typer.Exit(code)


@app.command("shell")
def shell(box: Box = "new", url: Url = HERE, key_env: KeyEnv = KEY) -> None:
    """An interactive shell; from what is no terminal, each line is a command in the folder that the last one left."""
    from .env_session import client, open_, read_line, show
    from .env_terminal import here
    from .env_terminal import shell as interactive

    with client(url, key_env) as env:
        opened = open_(env, box)
        folder = opened.workdir
        try:
            if here():
                raise typer.Exit(interactive(opened))
            while (line := read_line(f"{opened.id}:{folder}$ ")) is not None:
                # the folder goes to a file of its own, so that output stays what the command printed
                script = f"trap 'pwd >/tmp/.orchard-shell' EXIT\n{line}"
                show(opened.start(script, timeout_s=3600.0, cwd=folder).events())
                folder = opened.read("/tmp/.orchard-shell").decode(errors="replace").rstrip("\n") or folder
        finally:
            if box == "new":
                opened.close()


@app.command("cp")
def cp(
    source: Annotated[str, typer.Argument(help="A file here, or SANDBOX:PATH.")],
    target: Annotated[str, typer.Argument(help="A file here, or SANDBOX:PATH.")],
    url: Url = HERE,
    key_env: KeyEnv = KEY,
) -> None:
    """Copy a file of any size, or a directory, into a sandbox or out of one."""
    from ..env.remote.packed import fetch_folder, send_folder
    from .env_session import client

    (here, inside) = (":" not in source, ":" not in target)
    if here == inside:
        raise ConfigError("one of the two must be SANDBOX:PATH", hint="orchard env cp ./a.txt sb-…:a.txt")
    box, _, path = (target if here else source).partition(":")
    with client(url, key_env) as env:
        opened = env.attach(box)
        try:
            if here and Path(source).is_dir():
                size = send_folder(opened, Path(source), path)
            elif here:
                size = opened.upload(Path(source), path, mode=Path(source).stat().st_mode & 0o777)
            elif opened.exec(["test", "-d", path]).ok:
                size = fetch_folder(opened, path, Path(target))
            else:
                size = opened.download(path, Path(target))
        except OSError as error:  # on our side: the server's failures are typed
            ours = error.filename or (source if here else target)
            text, hint = f"{ours}: {error.strerror or error}", "can it be read?" if here else "can it be written?"
            raise ConfigError(text, hint=hint) from error
    Console().note(f"{size:,} bytes")


app.command("rm")(rm)


@app.command("gc")
def gc(url: Url = HERE, key_env: KeyEnv = KEY, json: Json = False) -> None:
    """One round of upkeep now: expired leases, lost records, unused trees."""
    import msgspec

    from .env_session import client

    with client(url, key_env) as env:
        done = msgspec.json.decode(env.client.ask("POST", "/v1/gc"))
    console = Console(json_only=json)
    if json:
        console.data(done)
    console.say(", ".join(f"{count} {what}" for what, count in done.items()))


@app.command("bench")
def bench(
    sandboxes: Annotated[int, typer.Option(help="Also so many at once: create, 4 commands each, delete.")] = 0,
    repeat: Annotated[int, typer.Option(help="Times of each measurement; 0: only what is named below.")] = 200,
    isolation: Annotated[str, typer.Option(help="As env.isolation, for the main measurements.")] = "auto",
    peers: Annotated[Path | None, typer.Option(help="Folder for SWE-ReX and mini-swe-agent, beside us.")] = None,
    agents: Annotated[bool, typer.Option("--agents", help="An agent's memory and its way to ready.")] = False,
    fork: Annotated[int, typer.Option(metavar="MIB", help="Fork a workspace of this size.")] = 0,
    transfer: Annotated[int, typer.Option(metavar="MIB", help="Send so much in and out.")] = 0,
    calls: Annotated[int, typer.Option(help="So many over connections that break: does one run twice?")] = 0,
    faults: Annotated[int, typer.Option(help="Cause about so many: whom do the records blame?")] = 0,
    cycles: Annotated[int, typer.Option(help="Create and delete so often: does anything grow?")] = 0,
    soak: Annotated[float, typer.Option(metavar="MINUTES", help="The same for so long.")] = 0.0,
    json: Json = False,
) -> None:
    """Measure this machine: embedded and over REST, beside raw subprocess and bare bwrap in the same run.

    Exit 1 if a call ran twice or was lost, a fault was blamed on somebody else, or anything grew.
    """
    from ..env.bench.more import More, held, tables
    from ..env.service.bench import measure, rows

    console = Console(json_only=json)
    more = More(agents, fork, transfer, calls, faults, cycles, soak)
    result = measure(isolation, repeat=repeat, sandboxes=sandboxes, note=console.note, peers_in=peers)
    result |= more.measure(max(1, repeat), console.note)
    if json:
        console.data(result)
    for title, columns, lines in () if json else [*rows(result), *tables(result)]:
        console.table(title, columns, lines)
    if not held(result):
        raise typer.Exit(1)


@app.command("doctor")
def doctor(json: Json = False) -> None:
    """Say what isolation is proven on this machine, and what to install. Exit 1 if none is."""
    from dataclasses import asdict

    from ..env.service.doctor import examine

    console, findings = Console(json_only=json), examine()
    if json:
        console.data([asdict(finding) for finding in findings])
    columns = ("what", "state", "detail", "to do")
    console.table("", columns, [(f.what, f.state, f.detail, f.hint) for f in findings])
    if not findings[0].good:
        raise typer.Exit(1)


def _labels(view: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in view.labels.items())
