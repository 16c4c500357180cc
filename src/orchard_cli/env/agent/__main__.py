"""`python3 -I -S -E agent.pyz --socket PATH --sandbox ID [--workdir DIR]`; the token is the first line of stdin."""

from __future__ import annotations

import os
import signal
import socket
import sys

from .agent import Agent
from .ground import Ground

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def protect() -> None:
    """Orphans become ours to collect; our memory, which holds the token, is not to be read by our equals."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    token = sys.stdin.readline().strip()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda number, frame: None)  # handled, not ignored: programs get the defaults back
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    ground = Ground()
    protect()
    ground.adopts = True
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(given["--socket"])
    listener.listen(512)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    workdir, sandbox = given.get("--workdir", "/"), given.get("--sandbox", "")
    agent = Agent(listener, ground, sandbox=sandbox, token=token, workdir=workdir, base=dict(os.environ))
    agent.children.adopt_orphans()
    print("ready", flush=True)
    agent.run()


if __name__ == "__main__":
    main()
