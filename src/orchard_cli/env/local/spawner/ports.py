"""A connection to a port inside a sandbox, made by a child that has entered it and handed out as a descriptor."""

import errno
import os
import socket

from .enter import Refused

TAG_BYTES = 8


def connect(passage: int, number: int, port: int, timeout_s: float) -> None:
    """Connect to `port` on the loopback of wherever this process is; send the socket through `passage`.

    `passage` is a datagram socket; the message is `number` in eight bytes, so that each waiter finds its own.
    """
    found = _reach(port, timeout_s)
    found.setblocking(True)
    with socket.socket(fileno=os.dup(passage)) as out:
        socket.send_fds(out, [number.to_bytes(TAG_BYTES, "big")], [found.fileno()])


def _reach(port: int, timeout_s: float) -> socket.socket:
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
    assert refusal is not None
    what = "nothing listens" if refusal.errno == errno.ECONNREFUSED else str(refusal.strerror or refusal)
    raise Refused("connect_refused", f"port {port} in the sandbox: {what}", "unknown") from refusal
