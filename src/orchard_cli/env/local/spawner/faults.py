"""A fault on its way to the driver."""

from collections.abc import Callable
from typing import Any

from .roots import Escaped

Header = dict[str, Any]


class Fault(Exception):
    """Attributable is `infra` unless given; see the fault table of the sandbox protocol."""

    def __init__(self, code: str, message: str, **more: str):
        super().__init__(message)
        self.record = {"code": code, "message": message, **more}


def client(code: str, message: str) -> Fault:
    return Fault(f"client.{code}", message, attributable="client", effect="none")


def guarded(call: Callable[[], None], failed: Callable[[Header], None]) -> None:
    """Run; what goes wrong in a way that we know becomes a record. Anything else ends the spawner, loudly."""
    try:
        call()
    except Fault as fault:
        failed(fault.record)
    except Escaped as error:
        text = f"the sandbox's own files stand in the way at {error}"
        failed({"code": "sandbox.broken_by_workload", "message": text, "attributable": "model", "effect": "none"})
    except OSError as error:
        failed({"code": "infra.spawner", "message": str(error)})
