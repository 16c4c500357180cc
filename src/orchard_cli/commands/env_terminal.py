"""This terminal, lent to a command in a remote sandbox: every key goes there as it is, Ctrl-C too."""

import os
import signal
import sys
import termios
import threading
import tty
from contextlib import suppress

from ..env.execution import Terminal
from ..env.remote.attachment import Attachment
from ..env.remote.sandbox import RemoteSandbox
from ..errors import SandboxError
from .env_run import show

DAY_S = 86_400.0
SHELL = "if command -v bash >/dev/null; then exec bash -i; else exec sh -i; fi"


def here() -> bool:
    """Whether both ends of ours are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def shell(box: RemoteSandbox) -> int:
    """An interactive shell until it ends; its exit code. It ends with the connection, too."""
    env = {"TERM": os.environ.get("TERM") or "xterm"}
    execution = box.start(SHELL, env=env, terminal=_size(), timeout_s=DAY_S, paced=True)
    try:
        attachment = box.attach(execution, kill_on_detach=True)
    except BaseException:
        with suppress(SandboxError):
            execution.cancel()
        raise
    with attachment as attached:
        before = termios.tcgetattr(0)
        resized = signal.signal(signal.SIGWINCH, lambda number, frame: _resize(attached))
        try:
            tty.setraw(0, termios.TCSADRAIN)  # what was typed meanwhile stays
            threading.Thread(target=_keys, args=(attached,), name="orchard-keys", daemon=True).start()
            shown = show(attached)
        finally:
            signal.signal(signal.SIGWINCH, resized)
            termios.tcsetattr(0, termios.TCSADRAIN, before)
    return shown.tell()


def _keys(attached: Attachment) -> None:
    with suppress(OSError, SandboxError):  # the main thread says why it ended
        while data := os.read(0, 65536):
            attached.write(data)
        attached.close_stdin()


def _size() -> Terminal:
    size = os.get_terminal_size(0)
    return Terminal(size.lines or 24, size.columns or 80)


def _resize(attached: Attachment) -> None:
    size = _size()
    with suppress(SandboxError):
        attached.resize(size.rows, size.cols)
