"""The site that is served beside the browser, and what we ask of it behind the browser's back."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import urllib.request
from typing import Any

from .faults import Trouble

ANSWER_S = 10.0
START_S = 20.0
MOST_BYTES = 4 * 2**20


class Site:
    """A server process of its own group; at most one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, command: list[str], port: int) -> None:
        """Start it, if it does not run, and wait until it listens. Raises `Trouble`."""
        if self._process and self._process.poll() is None:
            return
        self._process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
        for _ in range(int(START_S / 0.05)):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            if self._process.poll() is not None:
                break
            await asyncio.sleep(0.05)
        raise Trouble("site", "site_down", f"the site did not start ({command[0]})")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def fetch(request: dict[str, Any]) -> Any:
    """What the site answers to us, as JSON where it is JSON. Raises `Trouble`."""
    body = request["body"].encode() or None
    asked = urllib.request.Request(request["url"], body, dict(request["headers"]), method=request["method"])
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=ANSWER_S) as answer:
            said = answer.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise Trouble("site", "site_down", f"{request['url']}: {error}") from error
    try:
        return json.loads(said)
    except ValueError:
        return said
