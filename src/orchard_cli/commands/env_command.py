"""`orchard env exec|shell`: commands in a sandbox."""

import sys
from typing import Annotated

import typer

from ..errors import ConfigError
from .env_create import KeyEnv, Url
from .env_serve import HERE, KEY

Box = Annotated[str, typer.Argument(metavar="SANDBOX", help="A sandbox's id, or `new`.")]
SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"
DAY_S, WEEK_S = 86_400.0, 7 * 86_400.0


def exec_(
    box: Box,
    command: Annotated[list[str], typer.Argument(help="argv; one word is a bash script. All that follows is its own.")],
    url: Url = HERE,
    key_env: KeyEnv = KEY,
    timeout_s: Annotated[float, typer.Option(help="Seconds.")] = 600.0,
) -> None:
    """Run a command; its output as it comes, its exit code as ours (124: its time was over).

    Options stand before SANDBOX; what follows is the command's own.

    A pipe or file on standard input is passed on (`</dev/null`: none), a terminal is not.

    Ctrl-C cancels the command, and so does an output that is closed.
    """
    from .env_run import input_given, run
    from .env_session import client, open_, seconds

    words = command[1:] if command[0] == "--" else command
    if not words:
        raise ConfigError("there is no command to run", hint=f"orchard env exec {box} 'echo hello'")
    if words is command and words[0].startswith("-"):
        hint = f"orchard env exec {words[0]} … {box} COMMAND"
        raise ConfigError(f"{words[0]} stands behind SANDBOX, where the command begins: options go before", hint=hint)
    timeout_s = seconds("--timeout-s", timeout_s, most=WEEK_S)
    with client(url, key_env) as env:
        opened = open_(env, box)
        try:
            code = run(opened, words if len(words) > 1 else words[0], timeout_s, fed=input_given())
        finally:
            if box == "new":
                opened.close()
    sys.exit(code)


def shell(box: Box = "new", url: Url = HERE, key_env: KeyEnv = KEY) -> None:
    """An interactive shell; from what is no terminal, one bash that reads our standard input. Its exit code is ours."""
    from .env_run import run
    from .env_session import client, open_
    from .env_terminal import here
    from .env_terminal import shell as interactive

    with client(url, key_env) as env:
        opened = open_(env, box)
        try:
            code = interactive(opened) if here() else run(opened, SHELL, DAY_S, fed=sys.stdin is not None)
        finally:
            if box == "new":
                opened.close()
    sys.exit(code)
