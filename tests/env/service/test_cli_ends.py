"""`orchard env exec|shell` end what they began, also where something on the way fails."""

import io
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchard_cli.commands import env_run, env_terminal
from orchard_cli.env.execution import Terminal
from orchard_cli.errors import SandboxError


def broken(*arguments: object, **named: object) -> None:
    raise SandboxError("the server's disk is full", code="infra.disk_full")


def test_a_command_whose_input_cannot_be_handed_on_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(env_run, "read_input", io.BytesIO(b"text").read)
    feeding = env_run.Feeding(cast(Any, SimpleNamespace(write=broken, cancel=over.set)))
    assert over.wait(10)
    assert feeding.failed


def test_a_shell_that_cannot_be_attached_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(env_terminal, "_size", lambda: Terminal(24, 80))
    started = SimpleNamespace(cancel=lambda: told.append("cancel"))
    box = SimpleNamespace(start=lambda *arguments, **named: started, attach=broken)
    with pytest.raises(SandboxError, match="disk"):
        env_terminal.shell(cast(Any, box))
    assert told == ["cancel"]
