"""`orchard env cp`: files and directories into a sandbox and out of one."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import Console
from ..errors import ConfigError, SandboxError
from .env_create import KeyEnv, Url
from .env_serve import HERE, KEY

if TYPE_CHECKING:
    from ..env.remote.sandbox import RemoteSandbox

SHOWN = 5
Name = Annotated[str, typer.Argument(help="A file here, SANDBOX:PATH, or - (standard input, output).")]


def cp(source: Name, target: Name, url: Url = HERE, key_env: KeyEnv = KEY) -> None:
    """Copy a file of any size, or a directory, into a sandbox or out of one.

    As `cp -r`: into a directory that is there it goes under its own name (`DIR/.`: what is in it).

    Links in a directory are copied as links, wherever they lead.

    A name here that holds a colon is written `./a:b`.
    """
    from .env_session import client

    (here, inside) = (not _is_inside(source), not _is_inside(target))
    if here == inside:
        raise ConfigError("one of the two must be SANDBOX:PATH", hint="orchard env cp ./a.txt sb-…:a.txt")
    box, _, path = (target if here else source).partition(":")
    others: list[str] = []
    with client(url, key_env) as env:
        opened = env.attach(box)
        try:
            size = _send(opened, source, path, others) if here else _fetch(opened, path, target, others)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(141)
        except OSError as error:  # on our side: the server's failures are typed
            ours = error.filename or (source if here else target)
            text, hint = f"{ours}: {error.strerror or error}", "can it be read?" if here else "can it be written?"
            raise ConfigError(text, hint=hint) from error
    Console().note(f"{size:,} bytes")
    if others:
        Console().note(f"{len(others)} devices, pipes and sockets were left out: {', '.join(others[:SHOWN])}")


def _is_inside(word: str) -> bool:
    """`SANDBOX:PATH`: no sandbox has a name with a slash."""
    box, colon, _ = word.partition(":")
    return bool(colon) and "/" not in box


def _send(box: "RemoteSandbox", source: str, path: str, others: list[str]) -> int:
    from ..env.remote.packed import send_folder

    if source in ("-", "/dev/stdin"):
        return _send_input(box, _under(box, path, "stdin"))
    found = Path(source).stat()
    place = _under(box, path, _last(source))
    if stat.S_ISDIR(found.st_mode):
        return send_folder(box, Path(source), place, others)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(
            f"{source} is neither a file nor a directory", hint=f"orchard env cp - SANDBOX:PATH <{source}"
        )
    return box.upload(Path(source), place, mode=found.st_mode & 0o777)


def _send_input(box: "RemoteSandbox", path: str) -> int:
    from .env_run import read_input

    size = 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        while piece := read_input():
            size += len(piece)
            yield piece

    box.store(path, pieces())
    return size


def _fetch(box: "RemoteSandbox", path: str, target: str, others: list[str]) -> int:
    from ..env.remote.landing import put
    from ..env.remote.packed import fetch_folder

    path = path or "."
    folder, name = _is_folder(box, path), _last(path)
    if target in ("-", "/dev/stdout"):  # as it is open: neither cut nor begun anew
        if folder:
            raise ConfigError(
                f"{path} is a directory, and {target} takes a file", hint="give a directory that is not there"
            )
        size = sum(put(sys.stdout.buffer, piece) for piece in box.fetch(path))
        sys.stdout.buffer.flush()
        return size
    place = Path(target)
    if place.is_dir() and name not in ("", ".", ".."):
        place = place / name
    return fetch_folder(box, path, place, others) if folder else box.download(path, place)


def _under(box: "RemoteSandbox", path: str, name: str) -> str:
    """Where `name` goes: to `path`, or below it if that is a directory."""
    path = path or "."
    if name in ("", ".", "..") or not (path.endswith("/") or _is_folder(box, path)):
        return path
    return f"{path.rstrip('/')}/{name}"


def _is_folder(box: "RemoteSandbox", path: str) -> bool:
    try:
        box.list(path)
    except SandboxError as error:
        if error.fault.code not in ("client.no_such_file", "client.file_error"):
            raise
        return False
    return True


def _last(path: str) -> str:
    """What follows the last slash, `.` too: that is what tells `DIR/.` from `DIR`."""
    return path.rstrip("/").rpartition("/")[2]
