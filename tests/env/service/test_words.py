"""Words that are no text, from whoever sends them: refused in a sentence, and nobody else is any the worse for it."""

import asyncio
from pathlib import Path

import pytest

from orchard_cli.env.service.store.sqlite import SqliteStore
from orchard_cli.errors import SandboxError

from .conftest import Rest


@pytest.mark.parametrize("query", ["after=%ff", "label=%ff", "label=a%3D%ff", "label=%ff%3Da"])
def test_a_list_is_asked_for_in_text(rest: Rest, query: str) -> None:
    reply = rest("GET", f"/v1/sandboxes?{query}")
    assert (reply.status, reply.code) == (400, "client.bad_request")
    assert rest("GET", "/v1/sandboxes").json["items"] == []


def test_a_name_that_is_no_text_is_spoken_of(rest: Rest) -> None:
    path = f"/v1/sandboxes/{rest.make()}/files?path=a%ff"
    assert rest("GET", path).code == "client.no_such_file"
    assert rest("GET", f"{path.replace('/v1', '')}").code == "client.no_such_file"
    for size in (2, 5 << 20):
        put = rest("PUT", path, b"x" * size)
        assert (put.status, put.json["path"], len(rest("GET", path).body)) == (201, "a?", size)
    assert rest("GET", f"{path}&%ff=1").code == "client.bad_request"


@pytest.mark.parametrize("mode", ["%C2%B2", "9", "00644", "x", ""])
def test_a_mode_that_is_none(rest: Rest, mode: str) -> None:
    reply = rest("PUT", f"/v1/sandboxes/{rest.make()}/files?path=a&mode={mode}", b"x")
    assert (reply.status, reply.code) == (400, "client.bad_request")


def test_the_store_outlives_a_request_that_it_cannot_take(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "store.sqlite")
        with pytest.raises(SandboxError, match="the store failed"):
            await asyncio.wait_for(store.page("sandbox", after="\udcff"), 10)
        assert await asyncio.wait_for(store.page("sandbox"), 10) == []
        await store.close()

    asyncio.run(main())
