"""Pages of `docs/` are executed: their blocks are run in order, and each line shown is found in what was printed.

In a block ```console each `$ ` line is a command and the others are what it prints. A block ```python is a program, and
a block ```text that follows is what that prints; ```python NAME is a file that is written. What a command shows is
compared without the values of its numbers.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from test_readme import ROOT, commands

DOCS = ROOT / "docs"
MARK = "::step::"
BLOCK = re.compile(
    r"^```(console|python)(?: (\S+))?\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
PORT = re.compile(r"\b8[79]\d\d\b")  # ports in pages; each becomes a free one
NUMBER = re.compile(r"\d[\d.]*")
BLANKS = re.compile(r"[\s─━┏┳┓┡╇┩└┴┘│┃]+")


@dataclass(frozen=True)
class Step:
    code: str
    shown: tuple[str, ...]
    python: bool = False
    file: str = ""


def steps(name: str) -> list[Step]:
    """Of a page; the ports in it are free ones."""
    found: list[Step] = []
    for kind, file, block, after in BLOCK.findall(with_free_ports((DOCS / name).read_text())):
        if kind == "python":
            found.append(Step(block, tuple(after.splitlines()), python=True, file=file))
        else:
            found += [Step(command, tuple(shown)) for command, shown in commands(block)]
    return found


def with_free_ports(text: str) -> str:
    with ExitStack() as held:  # all at once, so that no two are the same

        def free() -> str:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            return str(taken.getsockname()[1])

        ports = {port: free() for port in dict.fromkeys(PORT.findall(text))}
    return PORT.sub(lambda match: ports[match[0]], text)


def plain(text: str, exact: bool) -> str:
    return BLANKS.sub(" ", text if exact else NUMBER.sub("#", text)).strip()


def shown_in(shown: str, printed: str, *, exact: bool) -> bool:
    """`shown` without what differs each time: an empty id stands for any, `…` for anything."""
    wanted = re.escape(plain(shown, exact)).replace('"id":""', '"id":"[^"]*"').replace("…", ".*?")
    return re.search(wanted, plain(printed, exact)) is not None


def play(argv: list[str], cwd: Path, timeout_s: float, **env: str) -> str:
    """What it printed, on both streams; it and all that it started have ended then."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "COLUMNS": "200", "no_proxy": "127.0.0.1", **env}
    going = subprocess.Popen(
        argv, cwd=cwd, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        return going.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        os.killpg(going.pid, signal.SIGKILL)
        return going.communicate()[0]
    finally:
        with suppress(ProcessLookupError):  # what it left behind
            os.killpg(going.pid, signal.SIGKILL)


def check(wanted: list[Step], said: list[str]) -> None:
    """`said` is what came before each mark, and at last what came after all of them."""
    for step, got in zip(wanted, said, strict=False):
        for line in step.shown:
            assert shown_in(line, got, exact=step.python), (
                f"`{step.code}` no longer prints {line!r}; it printed:\n{got}"
            )
    assert len(said) == len(wanted) + 1, f"it ended early:\n{said[-1]}"
