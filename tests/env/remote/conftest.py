"""The service of the service tests, seen through the client."""

from collections.abc import Iterator

import pytest

from orchard_cli.env.remote import RemoteEnv

from ..service.conftest import Rest, rest, server

__all__ = ["rest", "server"]


@pytest.fixture(params=["named", "uploaded"])
def remote(request: pytest.FixtureRequest, rest: Rest) -> Iterator[RemoteEnv]:
    """Once on the server's host, once as if on another one."""
    with RemoteEnv(rest.url, rest.key, share=request.param == "named") as env:
        yield env
