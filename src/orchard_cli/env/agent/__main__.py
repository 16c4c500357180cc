"""`python3 -I -S -E agent.pyz --socket PATH --sandbox ID [--workdir DIR]`; the token is the first line of stdin.

With `--passage FD|PATH` instead of `--socket`, connections come over a socket held outside, and so does the token.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from .agent import Agent
from .ground import Ground
from .passage import Passage

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def protect() -> None:
    """Orphans become ours to collect; our memory, which holds the token, is not to be read by our equals."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    passage = Passage(given["--passage"]) if "--passage" in given else None
    token = sys.stdin.readline().strip() if passage is None else passage.line()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda number, frame: None)  # handled, not ignored: programs get the defaults back
    # The first process of a container ends with its passage, not because something inside asks for it.
    signal.signal(signal.SIGTERM, lambda number, frame: None if os.getpid() == 1 else os._exit(0))
    ground = Ground(memory=int(given.get("--memory", 0)), pids=int(given.get("--pids", 0)))
    protect()
    if passage is not None:
        ground.beat = passage.beat
    ground.adopts = True
    listener = passage or _listener(given["--socket"])
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    workdir, sandbox = given.get("--workdir", "/"), given.get("--sandbox", "")
    agent = Agent(listener, ground, sandbox=sandbox, token=token, workdir=workdir, base=dict(os.environ))
    agent.children.adopt_orphans()
    print("ready", flush=True) if passage is None else passage.ready()
    agent.run()


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(512)
    return listener


if __name__ == "__main__":
    main()
