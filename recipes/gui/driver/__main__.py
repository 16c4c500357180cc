"""Listens on a loopback port and hands requests to the session."""

import asyncio
import contextlib
import hmac
import json
import os
import sys
from pathlib import Path
from typing import Any

from .faults import Trouble
from .session import Session

LINE = 64 * 2**20  # bytes of one request
OPS = ("reset", "act", "observe", "state", "rest", "health", "exit")


async def answer(session: Session, line: bytes) -> dict[str, Any]:
    """One request: its value, or what was wrong that no policy is to blame for."""
    try:
        request = json.loads(line)
        op, args = request["op"], request.get("args", {})
        if op not in OPS:
            raise Trouble("infra", "bad_request", f"no operation {op!r}")
        async with asyncio.timeout(float(request.get("timeout_s", 60))):
            return {"value": await getattr(session, op)(**args)}
    except Trouble as trouble:
        return {"fault": {"who": trouble.who, "code": trouble.code, "message": str(trouble)}}
    except TimeoutError:
        return {"fault": {"who": "infra", "code": "driver_timeout", "message": "the browser took too long"}}
    except Exception as error:  # noqa: BLE001 - the edge of this process: every request is answered
        return {"fault": {"who": "infra", "code": "driver_error", "message": f"{type(error).__name__}: {error}"[:2000]}}


async def main(address: Path, token: str) -> None:
    session, over, lock = Session(), asyncio.Event(), asyncio.Lock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError, asyncio.IncompleteReadError):
            if not hmac.compare_digest((await reader.readline()).strip(), token.encode()):
                writer.close()
                return
            while line := await reader.readline():
                async with lock:
                    said = await answer(session, line)
                writer.write(json.dumps(said).encode() + b"\n")
                await writer.drain()
                if session.over:
                    over.set()
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=LINE)
    port = server.sockets[0].getsockname()[1]
    try:
        await session.start(own_port=port)
    except Exception as error:  # noqa: BLE001 - told to whoever waits for the address
        tell(address, {"error": f"{type(error).__name__}: {error}"[:2000]})
        sys.exit(1)
    tell(address, {"port": port})
    await over.wait()
    server.close()


def tell(address: Path, said: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    part = address.with_suffix(".part")
    part.write_text(json.dumps(said))
    part.replace(address)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), os.environ.pop("DRIVER_TOKEN")))
