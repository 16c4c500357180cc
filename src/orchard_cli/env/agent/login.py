"""The environment of a login shell, found out once: profile scripts run one time, not before every command."""

from __future__ import annotations

from collections.abc import Callable

from .execution import Execution
from .house import House
from .order import Order

DEADLINE_S = 30.0  # a busy machine is no profile that hangs
MARK = "orchard-login-environment"
SCRIPT = f"printf '{MARK}\\0'; exec env -0"
SHORT = ("pid_limit", "oom")  # ends that say nothing of the profile
OWN = ("_", "SHLVL", "PWD", "OLDPWD", "ORCHARD_COMMAND")  # true of that shell alone


class Login:
    """`env` is what commands get that ask for it; without a shell, or if a profile hangs, it is the plain one."""

    def __init__(self, house: House, base: dict[str, str]):
        self._house, self._base, self.env = house, base, base
        self.known = False
        self._waiting: list[Callable[[], None]] = []
        self._execution: Execution | None = None

    def learn(self, env: dict[str, str], then: Callable[[], None]) -> None:
        """`env` is what that shell begins with, the first time that one is asked for."""
        if self._execution is None:
            self.env = {**self._base, **env}
            given = {"argv": ["bash", "-lc", SCRIPT], "timeout_s": DEADLINE_S, "ring_bytes": 0, "cwd": "/"}
            self._execution = Execution(self._house, Order(given, b""), self.env)
            self._execution.waiters.append(self._learned)
        self._waiting.append(then)  # only now: who is refused does not wait
        if self._execution.state == "done":
            self._learned()

    def _learned(self) -> None:
        assert self._execution is not None
        record, output = self._execution.result()
        self.known, said = True, output[: record["kept"][0]].decode(errors="surrogateescape")
        _, mark, found = said.rpartition(f"{MARK}\0")  # profiles talk, of this too
        pairs = (entry.partition("=") for entry in found.split("\0"))
        fresh = {name: value for name, _, value in pairs if name and name not in OWN}
        if mark and record["exit_code"] == 0:
            self.env = {**self.env, **fresh}
        calls, self._waiting = self._waiting, []
        for call in calls:
            call()
        if record["reason"] in SHORT:
            self.known, self._execution = False, None  # of that moment: the next one asks anew
