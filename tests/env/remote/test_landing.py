"""What is written out here is written whole."""

import os
import signal
import subprocess
import sys

WRITER = """
import sys
from orchard_cli.env.remote.landing import put
for _ in range(3):
    put(sys.stdout.buffer, b"x" * 100_000)
"""


def test_a_writer_that_is_stopped_loses_nothing() -> None:
    """Into a pipe that is full, Python's own `write` gives up halfway then, and says it in what it returns."""
    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE, bufsize=0) as writer:
        assert writer.stdout is not None
        size = len(writer.stdout.read(1))
        signal.sigtimedwait([], 0.3)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(writer.pid, number)
            signal.sigtimedwait([], 0.2)
        assert size + len(writer.communicate()[0]) == 300_000
