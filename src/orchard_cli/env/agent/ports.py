"""A connection to a port inside, carried over a client's connection."""

from __future__ import annotations

import socket

from .loop import Loop
from .pair import Pair
from .problem import Problem
from .transfer import Exchange


def reach(port: int, timeout_s: float) -> socket.socket:
    """A connection to `port` on the loopback of wherever this process is."""
    refusal: OSError | None = None
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        sock = None
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.settimeout(timeout_s)
            sock.connect((host, port))
            return sock
        except OSError as error:
            if sock is not None:
                sock.close()
            refusal = refusal or error
    said = getattr(refusal, "strerror", None) or refusal
    what = "nothing listens" if isinstance(refusal, ConnectionRefusedError) else str(said)
    raise Problem(409, "connect_refused", f"port {port} in the sandbox: {what}", "unknown")


def relay(exchange: Exchange) -> None:
    """Answer with 101, then carry bytes both ways until both sides have ended. Runs in a child."""
    request = exchange.request
    inside = reach(int(request.parts[2]), request.number("timeout_s", 5.0))
    loop = Loop()
    Pair(loop, inside, exchange.switch("tcp"), loop.stop)
    loop.run()
    raise ConnectionError("carried")
