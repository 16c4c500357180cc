"""The one thing of a sandbox's network that comes from outside: a listening socket, after proof that nothing else does.

Runs in a child that has entered the sandbox. Standard library only, all of it imported before the first fork.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence

from .enter import Refused
from .ports import TAG_BYTES

DEADLINE_S = 2.0
SIOCGIFFLAGS, IFF_UP = 0x8913, 1
KINDS = {
    "tcp": (socket.AF_INET, socket.SOCK_STREAM),
    "tcp6": (socket.AF_INET6, socket.SOCK_STREAM),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM),  # connecting sends nothing: it asks the kernel for a route
    "udp6": (socket.AF_INET6, socket.SOCK_DGRAM),
    "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
}
# (kind, address, port) of what must be out of reach; an address of kind `unix` is an abstract name
Canary = tuple[str, str, int]


def prove(canaries: Sequence[Canary]) -> None:
    """Try what must fail. Raises `Refused` when it does not, or when any interface but loopback is up."""
    if seen := interfaces():
        raise Refused("isolation_not_proven", f"the sandbox has a network interface: {', '.join(seen)}", "infra")
    for kind, address, port in canaries:
        if _reached(kind, address, port):
            raise Refused("isolation_not_proven", f"the sandbox reaches {address} ({kind})", "infra")


def interfaces() -> list[str]:
    """Those that are up. Some kernels put unused tunnels into every namespace; they stay down, for want of power."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ask:
        names = [name for _, name in socket.if_nameindex() if name != "lo"]
        return [name for name in names if _flags(ask, name) & IFF_UP]


def _flags(ask: socket.socket, name: str) -> int:
    try:
        answer = fcntl.ioctl(ask, SIOCGIFFLAGS, struct.pack("16sh14x", name.encode(), 0))
    except OSError:
        return IFF_UP  # what cannot be asked counts as open
    return int(struct.unpack("16sh14x", answer)[1])


def _reached(kind: str, address: str, port: int) -> bool:
    try:
        with socket.socket(*KINDS[kind]) as attempt:
            attempt.settimeout(DEADLINE_S)
            attempt.connect(f"\0{address}" if kind == "unix" else (address, port))
    except OSError:
        return False
    return True


def listen(passage: int, number: int, port: int, canaries: Sequence[Canary]) -> None:
    """Prove, then listen on `port` of this loopback and send the socket out, tagged with the request's number."""
    prove(canaries)
    out = socket.socket(fileno=os.dup(passage))
    with out, socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        socket.send_fds(out, [number.to_bytes(TAG_BYTES, "big")], [listener.fileno()])
