"""`orchard env serve|create|ps|exec|shell|cp|rm|gc|bench|doctor`: the sandbox service and its client."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Console
from .env_command import exec_, shell
from .env_copy import cp
from .env_create import KeyEnv, Url, create, label_of, rm
from .env_serve import HERE, KEY, serve

app = typer.Typer(help="Sandboxes for agents, served.", no_args_is_help=True, pretty_exceptions_enable=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


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

    from ..env.remote.answers import decoded
    from ..env.service.bodies import Page, SandboxView
    from .env_session import client

    console, after = Console(json_only=json), ""
    wanted = dict(map(label_of, label or ()))
    found: list[SandboxView] = []
    with client(url, key_env) as env:
        while True:
            query = {"limit": 1000, "after": after} | ({"label": (label or [])[-1]} if label else {})
            page = decoded(url, env.client.ask("GET", "/v1/sandboxes", query=query), Page)
            found += (view for view in page.items if wanted.items() <= view.labels.items())
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


# all that follows SANDBOX is the command's own, as with `docker exec`
app.command("exec", context_settings={"allow_interspersed_args": False})(exec_)
app.command("shell")(shell)
app.command("cp")(cp)
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

    from ..env.service.doctor import examine, isolates

    console, findings = Console(json_only=json), examine()
    if json:
        console.data([asdict(finding) for finding in findings])
    columns = ("what", "state", "detail", "to do")
    console.table("", columns, [(f.what, f.state, f.detail, f.hint) for f in findings], most=120)
    if not isolates(findings):
        raise typer.Exit(1)


def _labels(view: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in view.labels.items())
