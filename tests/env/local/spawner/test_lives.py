"""What one driver or one sandbox does wrong ends no other sandbox."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from orchard_cli.env.local.spawner.main import Server


def ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_a_successor_that_died_before_it_was_heard_ends_nothing(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    passage, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    server = Server(theirs, passage.fileno(), os.getpid())
    server._outlive(folder, 60.0)
    server._lost()
    wire, other = socket.socketpair()
    assert server._take(wire.fileno(), far.fileno(), ended()) is False
    assert server._take(wire.detach(), os.dup(far.fileno()), os.getpid()) is True
    other.close()
    server._traffic()  # its end is heard, and the next one may come
    assert server._driver == -1
    assert server._succession is not None
    server._succession._listener.close()
    for sock in (ours, passage, far):
        sock.close()
    os.close(folder)
