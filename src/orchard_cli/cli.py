"""The command line: `orchard <domain> <stage> [KEY=VALUE]…` and the nouns beside it. Heavy work is imported on use."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__, domains
from .errors import ConfigError, Interrupted, MissingExtra, OrchardError, disk_error

STAGES = {
    "distill": "Let a teacher act on the tasks and keep what happened.",
    "credit": "Estimate where unresolved attempts made progress.",
    "sft": "Learn from resolved attempts and from rising segments.",
    "rl": "Sample balanced groups and update the policy.",
    "train": "credit, then sft, then rl.",
    "eval": "Measure policies, with intervals.",
    "run": "distill, then train, then eval.",
}

_EXTRAS = {"torch": "train", "transformers": "train", "tokenizers": "train", "safetensors": "train", "openai": "http"}
_EXTRAS |= dict.fromkeys(("starlette", "uvicorn", "prometheus_client", "websockets"), "env") | {"asyncpg": "postgres"}

Words = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="`--show` prints all settings.")]
Show = Annotated[bool, typer.Option("--show", help="Print the composed settings and stop.")]
Plan = Annotated[bool, typer.Option("--plan", help="Print what would be done, how much, how long, and stop.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete what this stage wrote before and make it anew.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]

_UsageError: Any = typer.BadParameter.__base__  # of the click that this typer stands on, or carries

app = typer.Typer(
    name="orchard",
    help="Take an agent from a teacher's trajectories to a trained, honestly measured policy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: every `OrchardError` becomes `error:` and `hint:`; Ctrl-C is one of them."""
    signal.signal(signal.SIGTERM, _terminated)
    # tensor threads that spin while they wait stand in the way of sandboxes on the same cores
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # every batch shape keeps a compiled kernel; the usual thousand of them are gigabytes
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    # a sampler gives up the interpreter at every tensor operation; with many attempts beside it, the usual 5 ms to
    # have it back were an eighth of rl
    sys.setswitchinterval(0.0005)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run())
    except OrchardError as error:
        if "--debug" in sys.argv and sys.argv[1:2] != ["env"]:  # there it is a word of somebody's command
            raise
        from .console import Console

        Console().error(str(error), error.hint)
        sys.exit(error.exit_code)


def _run() -> int:
    """The exit code. Raises `OrchardError` also for a wrong command line and for what the disk refuses."""
    again = Interrupted("interrupted", hint="give the same command again")
    try:
        _grow()
        code = app(prog_name="orchard", standalone_mode=False) or 0
        if code == again.exit_code:  # how one version of the command-line library passes Ctrl-C on; others abort
            raise again
        return code
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return 2
        raise _usage(error) from None
    except typer.Abort:
        raise again from None
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    except OSError as error:
        raise disk_error(error) from error


def _missing(error: ModuleNotFoundError) -> OrchardError:
    package = (error.name or "").partition(".")[0]
    if package in _EXTRAS:
        return MissingExtra("this command", package, _EXTRAS[package])
    return ConfigError(f"this command needs the `{package}` package", hint=f"pip install {package}")


def _usage(error: Any) -> ConfigError:
    """The command-line library's message in our two lines."""
    message = error.format_message().replace("'", "`").replace(": Value error, ", ": ")  # some versions say so
    said, _, near = message.partition(" Did you mean ")
    said, _, options = said.partition(" (Possible options: ")
    near = f"`{options[:-1]}`?" if options else near
    where = error.ctx.command_path if error.ctx else "orchard"
    hint = f"did you mean {near}" if near else f"`{where} --help` lists what there is"
    return ConfigError(said[:1].lower() + said[1:].rstrip("."), hint=hint)


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command("domains")
def list_domains(json: Json = False) -> None:
    """List the domains that are found, with a line about each."""
    from .console import Console

    console = Console(json_only=json)
    found = [(name, domains.about(folder), str(folder)) for name, folder in domains.find().items()]
    if json:
        console.data([dict(zip(("name", "about", "folder"), row, strict=True)) for row in found])
    console.table("", ("domain", "about", "folder"), found)


@contextmanager
def _interruptible(hint: str) -> Iterator[None]:
    """Name Ctrl-C before the command-line library turns it into a bare abort."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted", hint=hint) from None


def _stage_command(domain: str, stage: str) -> Callable[..., None]:
    def command(
        words: Words = None,
        show: Show = False,
        plan: Plan = False,
        json: Json = False,
        fresh: Fresh = False,
        debug: Debug = False,
    ) -> None:
        from .launch.local import launch
        from .launch.notes import show_config
        from .launch.plan import plan_stage

        chosen = words or []
        if show and plan:
            raise ConfigError("--show and --plan exclude each other", hint="give one of them")
        if fresh and (show or plan):
            raise ConfigError("--fresh does nothing with --show or --plan, which write nothing", hint="leave it out")
        with _interruptible("the same command goes on where it stopped"):
            if show:
                show_config(domain, chosen, json=json)
            elif plan:
                plan_stage(domain, stage, chosen, json=json)
            else:
                launch(domain, stage, chosen, json=json, fresh=fresh)

    command.__doc__ = STAGES[stage]
    return command


def _look_command(domain: str, verb: str, about: str) -> Callable[..., None]:
    def command(words: Words = None, json: Json = False, debug: Debug = False) -> None:
        from .launch.local import look

        with _interruptible("nothing was written"):
            good = look(domain, verb, words or [], json=json)
        if not good:
            raise typer.Exit(1)

    command.__doc__ = about
    return command


def _domain_app(name: str, folder: Path) -> typer.Typer:
    sub = typer.Typer(help=domains.about(folder), no_args_is_help=True, pretty_exceptions_enable=False)
    for stage in STAGES:
        sub.command(stage)(_stage_command(name, stage))
    sub.command("tasks")(_look_command(name, "tasks", "List the tasks."))
    sub.command("check")(
        _look_command(
            name, "check", "Prove the tasks: the oracle scores 1 through the harness, doing nothing scores 0."
        )
    )
    for verb, about in domains.commands(folder).items():
        sub.command(verb)(_look_command(name, verb, about))
    return sub


def _grow() -> None:
    """Give the app its domains and the nouns beside them."""
    from .commands import env, model, runs, traj

    for name, folder in domains.find().items():
        app.add_typer(_domain_app(name, folder), name=name)
    for noun in (traj, runs, model, env):
        app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2])
