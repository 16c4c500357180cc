"""The name in the first message of TLS. OpenSSL reads it; nothing is parsed here.

A client that encrypts its message (ECH) shows the name of whoever decrypts it. What is said after the handshake cannot
be seen: a rule for a host trusts that host not to pass requests on to another.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

LIMIT = 65_536
NOT_TLS = "it is not TLS"


class NotTls(Exception):
    """What came is no first message of TLS, or one without a name."""


async def server_name(begin: bytes, more: Callable[[], Awaitable[bytes]]) -> tuple[str, bytes]:
    """(name asked for, all bytes read so far, to be passed on unchanged). Raises `NotTls`."""
    names: list[str | None] = []
    # A context of its own: the callback belongs to the context, and many peek at the same time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = _noting(names)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peek = context.wrap_bio(incoming, outgoing, server_side=True)
    seen, data = b"", begin or await more()
    while data:
        seen += data
        incoming.write(data)
        try:
            peek.do_handshake()
        except ssl.SSLWantReadError:
            if len(seen) > LIMIT:
                raise NotTls("the first message of TLS is too long") from None
            data = await more()
            continue
        except ssl.SSLError as error:
            return _found(names, error), seen
        raise NotTls(NOT_TLS)
    raise asyncio.IncompleteReadError(seen, None)


def _found(names: list[str | None], error: ssl.SSLError) -> str:
    if not names:
        raise NotTls(NOT_TLS) from error
    if not names[0]:
        raise NotTls("TLS names no server")
    return names[0]


def _noting(names: list[str | None]) -> Callable[[object, str | None, object], int]:
    def note(_: object, name: str | None, __: object) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR  # enough seen: end the handshake

    return note
