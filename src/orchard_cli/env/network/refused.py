"""An answer of ours instead of what was asked for."""

from .log import Verdict


class Refused(Exception):
    """`reason` is said to the sandbox and written to the log: it holds nothing that the sandbox may not know."""

    def __init__(self, status: int, reason: str, *, verdict: Verdict = "refused"):
        super().__init__(reason)
        self.status, self.reason, self.verdict = status, reason, verdict
