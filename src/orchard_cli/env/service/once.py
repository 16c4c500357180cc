"""Exactly once: a keyed request is written down before it acts, and its repetition is answered, never done again."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import SandboxError
from .problem import fault_view, of_view, refused
from .store.store import Conflict, Record, Store

KEPT_S = 86_400.0
LONGEST = 200  # characters of a key
Act = Callable[[], Awaitable[dict[str, Any]]]
Replay = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass
class _Open:
    digest: str
    answer: "asyncio.Future[dict[str, Any]]"


class Once:
    """`secret` keys the digests of bodies: they may hold secrets, and a plain hash of those could be guessed."""

    def __init__(self, store: Store, secret: bytes):
        self._store, self._secret = store, secret
        self._open: dict[str, _Open] = {}

    def digest(self, *parts: bytes) -> str:
        hash = hashlib.blake2b(key=self._secret, digest_size=16)
        for part in parts:
            hash.update(len(part).to_bytes(8, "big") + part)
        return hash.hexdigest()

    async def run(
        self, tenant: str, key: str, digest: str, act: Act, *, early: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer of the one time that `act` ran under this key.

        `early` is what repetitions get even where the end was never written down (the id of an execution, say).
        Raises `client.key_reused` for another body, `client.key_unfinished` where a server died in between.
        """
        if not key.isprintable() or not 0 < len(key) <= LONGEST:
            raise refused(f"an Idempotency-Key has 1 to {LONGEST} printable characters", "client.bad_request")
        name = f"{tenant}/{key}"
        if going := self._open.get(name):
            _same(going.digest, digest)
            return await asyncio.shield(going.answer)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        self._open[name] = _Open(digest, future)
        try:
            answer = await self._first(name, tenant, digest, act, early)
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
            else:
                future.cancel()
            raise
        finally:
            del self._open[name]
        future.set_result(answer)
        return answer

    async def _first(
        self, name: str, tenant: str, digest: str, act: Act, early: dict[str, Any] | None
    ) -> dict[str, Any]:
        record = Record("once", name, tenant, {"digest": digest, "early": early}, expires=time.time() + KEPT_S)
        try:
            version = await self._store.put(record, expect=0)
        except Conflict:
            return await self._again(name, digest)
        try:
            answer = await act()
        except SandboxError as error:
            if error.fault.effect == "none":  # nothing was done: the key may be used again
                await self._store.delete("once", name)
            else:
                await self._end(record, version, {"error": fault_view(error)})
            raise
        if early is None:
            # It is done, whatever becomes of its record: repeated, it is unknown.
            with suppress(SandboxError, Conflict):
                await self._end(record, version, {"answer": answer})
        return answer

    async def _end(self, record: Record, version: int, more: dict[str, Any]) -> None:
        ended = Record("once", record.id, record.tenant, record.body | more, expires=record.expires)
        await self._store.put(ended, expect=version)

    async def _again(self, name: str, digest: str) -> dict[str, Any]:
        record = await self._store.get("once", name)
        if record is None:
            raise refused("this key was just given free", "capacity.busy", retry="same")
        _same(record.body["digest"], digest)
        if "error" in record.body:
            raise of_view(record.body["error"])
        if "answer" in record.body:
            return dict(record.body["answer"])
        if record.body["early"] is not None:
            return dict(record.body["early"])
        raise refused(
            "a request with this key began and its end is not known",
            "client.key_unfinished",
            effect="unknown",
            retry="fresh",
            hint="look whether it took effect, then use a new key",
        )


def _same(kept: str, given: str) -> None:
    if kept != given:
        raise refused(
            "this Idempotency-Key was used with another request",
            "client.key_reused",
            hint="make a new key for each new request",
        )
