"""A real sandbox with the small world running in it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from orchard_cli.recipes.claw.world import launch

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec

from .made import small

Open = Callable[..., Sandbox]


@pytest.fixture(scope="session")
def env() -> Iterator[LocalEnv]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with LocalEnv() as opened:
        yield opened


@pytest.fixture
def start(env: LocalEnv) -> Iterator[Open]:
    """Opens a sandbox and starts a world in it; `mcp=True` shows the packages that `claw-mcp` needs."""
    with ExitStack() as stack:

        def opened(*, mcp: bool = False, **changes: Any) -> Sandbox:
            spec = Spec(binds=launch.binds(mcp=mcp), env=launch.variables())
            sandbox = stack.enter_context(env.open(spec))
            launch.start(sandbox, small(**changes))
            return sandbox

        yield opened
