"""A socket whose other end is a port inside a remote sandbox; two threads carry the bytes over a WebSocket."""

import select
import socket
import threading
from contextlib import ExitStack, suppress
from typing import Any

from ...errors import MissingExtra, SandboxError, installed

PIECE = 1 << 16


def connect(url: str, headers: dict[str, str], timeout_s: float) -> socket.socket:
    """A connected, blocking socket. Raises `SandboxError(code="connect_refused")` when nothing listens there."""
    if not installed("websockets"):
        raise MissingExtra("reaching a port of a remote sandbox", "websockets", "env")
    from websockets.exceptions import ConnectionClosed, WebSocketException
    from websockets.sync.client import connect as dial

    with ExitStack() as stack:
        try:
            wire = stack.enter_context(
                dial(
                    "ws" + url.removeprefix("http"),
                    additional_headers=headers,
                    open_timeout=timeout_s,
                    ping_timeout=None,  # a server whose sandbox does not read for a while is not gone for that
                    max_size=None,
                    compression=None,
                    proxy=None,
                )
            )
            wire.recv(timeout=timeout_s)  # `open`, once the port inside took the connection
        except ConnectionClosed as error:
            raise refusal(error) from error
        except (OSError, WebSocketException) as error:
            raise SandboxError(f"{url}: {error}", code="infra.connection_lost", effect="none", retry="same") from error
        ours, theirs = socket.socketpair()
        held = stack.pop_all()
    threading.Thread(target=_out, args=(wire, theirs), name="orchard-tunnel", daemon=True).start()
    threading.Thread(target=_in, args=(wire, theirs, held), name="orchard-tunnel", daemon=True).start()
    return ours


def _out(wire: Any, theirs: socket.socket) -> None:
    from websockets.exceptions import WebSocketException

    with suppress(OSError, ValueError, WebSocketException):  # closed from over there meanwhile
        while data := theirs.recv(PIECE):
            wire.send(data)
        wire.send(b"")
        ear = select.poll()
        ear.register(theirs, 0)
        ear.poll()  # until ours is closed, not only for sending: then nobody waits for an answer
        wire.close()


def _in(wire: Any, theirs: socket.socket, held: ExitStack) -> None:
    from websockets.exceptions import WebSocketException

    with suppress(OSError, WebSocketException), held:
        for message in wire:
            theirs.sendall(_bytes(message))
    with suppress(OSError):
        theirs.shutdown(socket.SHUT_RDWR)
    theirs.close()


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def refusal(error: Any) -> SandboxError:
    said = error.rcvd.reason if error.rcvd else str(error)
    code, _, message = said.partition(" ")
    if code == "connect_refused":
        return SandboxError(message, code=code, attributable="unknown", effect="none", retry="same")
    return SandboxError(message or said, code=code if "." in code else "infra.connection_lost", effect="none")
