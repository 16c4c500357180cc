"""What a freshly forked child does on its way into a sandbox, to do one operation of ours there.

The child holds a copy of the spawner's memory inside the sandbox's pid namespace. It is safe there because the
spawner is not dumpable (`kernel.hide_memory`) and the sandbox has no power over our user namespace; descriptors are
all close-on-exec.
"""

import json
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from . import kernel


class Door(NamedTuple):
    """How to get into one sandbox."""

    init: int = -1  # pidfd of its first process; -1: no namespaces
    kinds: int = 0
    detour: bool = False  # the child itself must fork into the pid namespace


class Plan(NamedTuple):
    """What the child is to do."""

    call: Callable[[], None]
    inside: bool = True  # False: stays outside and keeps its powers


class Refused(Exception):
    """The child cannot do what was asked; becomes an error reply."""

    def __init__(self, code: str, message: str, attributable: str = "client"):
        super().__init__(message)
        self.record = {"code": code, "message": message, "attributable": attributable}


TOO_DEEP = Refused("workload.too_deep", "too many directories below each other", "model")


def become(door: Door, plan: Plan, status: int, output: tuple[int, int]) -> NoReturn:
    """Runs in the child and never returns. Writes to `status` what went wrong, as JSON."""
    try:
        _prepare(door, plan, output)
        plan.call()
        os._exit(0)
    except Refused as refused:
        os.write(status, json.dumps(refused.record).encode())
    except RecursionError:
        os.write(status, json.dumps(TOO_DEEP.record).encode())
    except BaseException as error:  # noqa: BLE001 - last stop before the child would run the parent's code
        text = f"{type(error).__name__}: {error}"
        os.write(status, json.dumps({"code": "infra.operation_failed", "message": text}).encode())
    os._exit(125)


def _prepare(door: Door, plan: Plan, output: tuple[int, int]) -> None:
    inside = plan.inside and door.init >= 0
    if door.detour and inside:
        _detour(door.init)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    kernel.die_with_parent(signal.SIGKILL)
    if not inside:
        return
    kernel.setns(door.init, door.kinds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.drop_privileges()


def close_user_namespaces(init: int) -> None:
    """What a newer bubblewrap does itself: nothing inside may make a namespace in which it would be powerful."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            limit = os.open("/proc/sys/user", os.O_PATH | os.O_CLOEXEC)
            kernel.setns(init, kernel.CLONE_NEWUSER)  # whose limits the file now shows
            fd = os.open("max_user_namespaces", os.O_WRONLY, dir_fd=limit)
            os.write(fd, b"0")
        os._exit(0)
    os.waitpid(pid, 0)


def _detour(init: int) -> None:
    """Go on in a child that lives in the sandbox's pid namespace; stay behind to end as it ends."""
    kernel.setns(init, kernel.CLONE_NEWPID)
    if pid := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
