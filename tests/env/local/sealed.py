"""What tests of sealed forks share."""

import os

import pytest

from orchard_cli.env.local.sandbox import LocalSandbox
from orchard_cli.env.sandbox import Sandbox

NEW_ENOUGH = pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15), reason="this kernel cannot mount beneath"
)
MANY = "mkdir -p many && (cd many && seq 1 220 | xargs touch)"  # more than is worth copying


def way(sandbox: Sandbox) -> str:
    assert isinstance(sandbox, LocalSandbox)
    return sandbox.way


def out(sandbox: Sandbox, script: str) -> str:
    done = sandbox.exec(script)
    assert done.ok, done.stderr
    return done.stdout.decode()
