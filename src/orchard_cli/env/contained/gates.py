"""Proof that a contained sandbox has no network: what must fail is tried from inside."""

import json
from collections.abc import Sequence
from inspect import getsource

from ...errors import SandboxError
from ..channel import Channel
from ..network.canary import Canary
from ..running import order, run

DEADLINE_S = 30.0


def _look(canaries: Sequence[Canary]) -> None:
    """Runs inside, as a program of its own: prints one line for whatever is within reach."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ask:
        for _, name in socket.if_nameindex():
            try:
                flags = struct.unpack("16sh14x", fcntl.ioctl(ask, 0x8913, struct.pack("16sh14x", name.encode(), 0)))[1]
            except OSError:
                flags = 1  # what cannot be asked counts as open
            if name != "lo" and flags & 1:
                print("the network interface", name)
    for kind, address, port in canaries:
        family = {"t": socket.AF_INET6 if kind.endswith("6") else socket.AF_INET, "u": socket.AF_UNIX}
        where = family["u"] if kind == "unix" else family["t"]
        with socket.socket(where, socket.SOCK_DGRAM if kind.startswith("udp") else socket.SOCK_STREAM) as attempt:
            attempt.settimeout(2.0)
            try:
                attempt.connect("\0" + address if kind == "unix" else (address, port))
                print(address, kind)
            except OSError:
                pass


def prove(channel: Channel, python: str, canaries: Sequence[Canary]) -> None:
    """Raises `SandboxError(code="isolation_not_proven")` for whatever is within reach, and if it cannot be tried."""
    script = f"from typing import *\nCanary = object\n{getsource(_look)}\n_look({json.loads(json.dumps(canaries))!r})"
    result = run(channel, order([python, "-I", "-c", script], timeout_s=DEADLINE_S, ring_bytes=0), DEADLINE_S)
    said = (result.stdout + result.stderr).decode(errors="replace").strip()
    if not result.ok or said:
        message = f"the sandbox reaches {said or result.reason}"
        raise SandboxError(message, code="isolation_not_proven", effect="none")
