"""What becomes of one request, while it becomes it."""

import time
from dataclasses import dataclass, field

import h11

from .addresses import Address
from .log import Decision, Verdict, short
from .meter import CapReached
from .refused import Refused
from .rules import Ask
from .wire import Gone


@dataclass
class Note:
    kind: str
    method: str = ""
    host: str = ""
    port: int = 0
    rule: str = ""
    reason: str = ""
    verdict: Verdict = "allowed"
    status: int = 0
    up: int = 0
    down: int = 0
    # What must still hold when the rules change:
    ask: Ask | None = None  # once a rule let it through
    reached: Address | None = None
    unproven: bool = False  # bytes pass, and need not be TLS for the host
    began: float = field(default_factory=time.monotonic)

    def judge(self, refused: Refused) -> None:
        self.verdict, self.reason, self.status = refused.verdict, refused.reason, refused.status

    def decision(self, sandbox: str) -> Decision:
        return Decision(
            time=time.time(),
            sandbox=sandbox,
            kind=self.kind,
            verdict=self.verdict,
            host=short(self.host),
            port=self.port,
            method=short(self.method),
            address=str(self.reached or ""),
            rule=self.rule,
            reason=short(self.reason),
            status=self.status,
            bytes_up=self.up,
            bytes_down=self.down,
            seconds=round(time.monotonic() - self.began, 4),
        )


def told(error: Exception) -> Refused:
    """An error on the way, as an answer. Raises what is none of the expected kinds: a fault of ours."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, CapReached):
        return Refused(429, f"no more: {error}", verdict="capped")
    if isinstance(error, h11.RemoteProtocolError):
        return Refused(error.error_status_hint, f"this is not HTTP: {error}")
    if isinstance(error, TimeoutError):
        return Refused(408, "nothing came in time", verdict="failed")
    if isinstance(error, Gone | OSError | EOFError | h11.LocalProtocolError):
        return Refused(502, f"the connection ended: {error}".removesuffix(": "), verdict="failed")
    raise error
