"""A connection to a port inside a sandbox, made by a child that has entered it and handed out as a descriptor."""

import os
import socket

from ...agent.ports import reach
from ...agent.problem import Problem
from .enter import Refused

TAG_BYTES = 8


def connect(passage: int, number: int, port: int, timeout_s: float) -> None:
    """Connect to `port` on the loopback of wherever this process is; send the socket through `passage`.

    `passage` is a datagram socket; the message is `number` in eight bytes, so that each waiter finds its own.
    """
    try:
        found = reach(port, timeout_s)
    except Problem as problem:
        raise Refused(*(problem.record[key] for key in ("code", "message", "attributable"))) from problem
    found.setblocking(True)
    with socket.socket(fileno=os.dup(passage)) as out:
        socket.send_fds(out, [number.to_bytes(TAG_BYTES, "big")], [found.fileno()])
