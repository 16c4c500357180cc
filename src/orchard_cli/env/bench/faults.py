"""Faults that are known because we make them, and whom our records blame: the model, the infrastructure, the client."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ...errors import SandboxError
from ..local.local import LocalEnv
from ..sandbox import Limits, Sandbox, Spec
from .agents import agent_of, command
from .times import Note, family

SMALL = Limits(memory_mb=64, pids=16, disk_mb=16)
SOON_S = 0.15  # after which something is killed under a running command
Said = tuple[str, str]  # owner, reason or code
Make = Callable[[LocalEnv], Said]


@dataclass
class Blamed:
    """One kind of fault: who owns it, and whom the records named, by reason or code."""

    fault: str
    owner: str
    n: int = 0
    said: Counter[str] = field(default_factory=Counter)
    wrong: int = 0  # another owner, or a time-out that was none, or the other way round
    unknown: int = 0


def faults(count: int, note: Note) -> list[Blamed]:
    """About `count` faults, as many of each kind."""
    found = []
    for name, (owner, make) in KINDS.items():
        row = Blamed(name, owner)
        note(f"{name} …")
        with LocalEnv() as env:
            for _ in range(max(1, count // len(KINDS))):
                _once(env, make, row)
        found.append(row)
    return found


def _once(env: LocalEnv, make: Make, row: Blamed) -> None:
    owner, what = make(env)
    row.n += 1
    row.said[f"{owner}: {what}"] += 1
    row.unknown += owner == "unknown"
    row.wrong += owner != row.owner or ("timeout" in what) != row.fault.startswith("timeout")


def _of(call: Callable[[], object]) -> Said:
    try:
        result = call()
    except SandboxError as error:
        return error.fault.attributable, error.fault.code
    reason = getattr(result, "reason", "no fault")
    return "model", reason


def _runs(script: str, **how: float | str) -> Make:
    def make(env: LocalEnv) -> Said:
        with env.open(Spec(limits=SMALL)) as box:
            said = _of(lambda: box.exec(script, **how))  # type: ignore[arg-type]
            after = _of(lambda: box.exec("echo hi"))
            return said if after == ("model", "exited") else after  # the sandbox must have outlived it

    return make


def _killed(whom: Callable[[LocalEnv], int]) -> Make:
    """While a command runs, or just before one."""

    def make(env: LocalEnv) -> Said:
        box = env.open(Spec(limits=SMALL))
        try:
            timer = threading.Timer(SOON_S, lambda: os.kill(whom(env), signal.SIGKILL))
            timer.start()
            said = _of(lambda: box.exec("sleep 20", timeout_s=10))
            timer.join()
            return said
        finally:
            _leave(box)

    return make


def _leave(box: Sandbox) -> None:
    with suppress(SandboxError):
        box.close()


def _init(env: LocalEnv) -> int:
    """The first process of the sandbox."""
    bwrap = next(pid for pid in family([env.spawner_pid])[1:] if command(pid) == "bwrap")
    return family([bwrap])[1]


def _idle_kill(env: LocalEnv) -> Said:
    box = env.open(Spec(limits=SMALL))
    try:
        os.kill(agent_of(env), signal.SIGKILL)
        time.sleep(0.05)
        return _of(lambda: box.exec("echo hi"))
    finally:
        _leave(box)


def _closed(env: LocalEnv) -> Said:
    box = env.open(Spec(limits=SMALL))
    box.close()
    return _of(lambda: box.exec("echo hi"))


def _bad_spec(env: LocalEnv) -> Said:
    return _of(lambda: env.open(Spec(image="/no/such/image")))


KINDS: dict[str, tuple[str, Make]] = {
    "exit 1": ("model", _runs("exit 1")),
    "exit 124, as a timeout looks": ("model", _runs("exit 124")),
    "timeout": ("model", _runs("sleep 20", timeout_s=0.1)),
    "timeout, of one that ignores TERM": ("model", _runs("trap '' TERM; sleep 20 & wait", timeout_s=0.1)),
    "ends itself": ("model", _runs("kill -9 $$")),
    "ends all it sees": ("model", _runs("kill -9 -1")),
    "memory": ("model", _runs("head -c 400M /dev/zero | tail -c 400M", timeout_s=20)),
    "processes": ("model", _runs("for n in $(seq 40); do sleep 3 & done; exit 7", timeout_s=20)),
    "disk": ("model", _runs("head -c 64M /dev/zero >big || exit 1", timeout_s=20)),
    "no such directory": ("client", _runs("true", cwd="/nowhere")),
    "no such image": ("client", _bad_spec),
    "closed": ("client", _closed),
    "agent killed under a command": ("infra", _killed(agent_of)),
    "agent killed before a command": ("infra", _idle_kill),
    "first process killed from outside": ("infra", _killed(_init)),
    "spawner killed under a command": ("infra", _killed(lambda env: env.spawner_pid)),
}
