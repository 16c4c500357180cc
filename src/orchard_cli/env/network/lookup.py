"""From a name to a connection: look up once, judge what came, and go exactly there."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

from .addresses import Address, refusal
from .refused import Refused

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Lifts = Callable[[Address, int], bool]  # whether a rule names this private address


async def system(host: str, port: int) -> Sequence[Address]:
    """Ask this machine's resolver. A name is absolute: no search domain may be put behind it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(f"{host}." if "." in host else host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(item[4][0]).partition("%")[0]) for item in found]


async def addresses(host: str, port: int, resolve: Resolve, lifts: Lifts) -> list[Address]:
    """All addresses of `host`. One that may not be reached condemns all: a name that points inside is no accident."""
    try:
        found = list(dict.fromkeys(await resolve(host, port)))
    except OSError as error:
        raise Refused(502, f"{host} cannot be looked up: {error.strerror or error}", verdict="failed") from error
    if not found:
        raise Refused(502, f"{host} has no address", verdict="failed")
    for address in found:
        if why := refusal(address, lifts(address, port)):
            raise Refused(403, f"{why}, and {host} leads there" if host != str(address) else why)
    return found


async def connect(found: Sequence[Address], port: int) -> tuple[Streams, Address]:
    """The first that answers, and which it was; nothing is looked up again. Raises `Refused`."""
    error: OSError | None = None
    for address in found:
        try:
            return await asyncio.open_connection(str(address), port), address
        except OSError as failed:
            error = failed
    raise Refused(502, f"no connection to port {port} of {found[0]}: {error}", verdict="failed") from error
