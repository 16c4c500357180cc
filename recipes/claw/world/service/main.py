"""The process of a world: read it from standard input, listen, say so, and live on in the background.

Nothing about the world is in a file, an argument or a variable, where an agent with a shell could read it; and the
process asks the kernel to let nobody of its user look into its memory.
"""

import ctypes
import json
import os
import sys
import zoneinfo

from .rest import Server
from .world import World

PR_SET_DUMPABLE = 4


def main() -> None:
    told = json.load(sys.stdin.buffer)
    zoneinfo.reset_tzpath([told["tzpath"]])
    server = Server(World(told["world"]), told["token"], told["port"])
    if os.fork():
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    server.run()
