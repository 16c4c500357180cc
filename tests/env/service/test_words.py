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


def test_the_store_outlives_a_request_that_it_cannot_take(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "store.sqlite")
        with pytest.raises(SandboxError, match="the store failed"):
            await asyncio.wait_for(store.page("sandbox", after="\udcff"), 10)
        assert await asyncio.wait_for(store.page("sandbox"), 10) == []
        await store.close()

    asyncio.run(main())
