"""What a freshly forked child does on its way into a sandbox: from the fork to `execve`, or to a file operation.

Until it has become the program, the child holds a copy of the spawner's memory inside the sandbox's pid
namespace. It is safe there because the spawner is not dumpable (`kernel.hide_memory`) and the sandbox has no
power over our user namespace; descriptors are all close-on-exec.
"""

import errno
import json
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from . import kernel

SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
ARGUMENT_LIMIT = 100_000  # the kernel allows 131,071 bytes for one argument


@dataclass(frozen=True)
class Door:
    """How to get into one sandbox."""

    init: int = -1  # pidfd of its first process; -1: no namespaces
    kinds: int = 0
    detour: bool = False  # the child itself must fork into the pid namespace
    marks: bool = True  # may make a namespace for each command
    joins: Sequence[int] = ()  # open cgroup.procs files
    max_processes: int = 0  # only where no cgroup can count them


@dataclass(frozen=True)
class Plan:
    """What the child is to be. Exactly one of script, argv and call is given."""

    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    mark: int = 0  # given from outside where the child cannot make one
    script: bytes | None = None
    argv: Sequence[str] | None = None
    call: Callable[[], None] | None = None
    stdin: int = -1
    inside: bool = True  # False: an operation of ours that stays outside and keeps its powers
    limited: bool = True  # counted against the sandbox's limits; our own file operations are not


class Refused(Exception):
    """The child cannot do what was asked; becomes an error reply."""

    def __init__(self, code: str, message: str, attributable: str = "client"):
        super().__init__(message)
        self.record = {"code": code, "message": message, "attributable": attributable}


def become(door: Door, plan: Plan, status: int, output: tuple[int, int]) -> NoReturn:
    """Runs in the child and never returns. Writes lines to `status`: its mark, a JSON fault, its child's end."""
    try:
        _prepare(door, plan, status, output)
        if plan.call is not None:
            plan.call()
            os._exit(0)
        _execute(plan)
    except Refused as refused:
        os.write(status, json.dumps(refused.record).encode())
    except BaseException as error:  # noqa: BLE001 - last stop before the child would run the parent's code
        text = f"{type(error).__name__}: {error}"
        os.write(status, json.dumps({"code": "infra.enter_failed", "message": text}).encode())
    os._exit(125)


def _prepare(door: Door, plan: Plan, status: int, output: tuple[int, int]) -> None:
    if plan.limited:
        for entry in door.joins:
            os.write(entry, b"0")
        _offer_to_oom_killer()
    if door.marks and plan.limited:
        # A cgroup namespace of its own marks all that this command starts: inherited, readable from outside, and
        # nothing inside has the power to change it.
        kernel.unshare(kernel.CLONE_NEWCGROUP)
        os.write(status, b"%d\n" % os.stat("/proc/self/ns/cgroup").st_ino)
    if door.detour and plan.inside:
        _detour(door.init, status)
    os.setsid()
    os.dup2(plan.stdin, 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    kernel.die_with_parent(signal.SIGKILL)
    if not plan.inside:
        return
    if plan.limited:
        kernel.forget_keys()
    if door.init >= 0:
        kernel.setns(door.init, door.kinds)
    os.umask(0o022)
    if plan.limited and door.max_processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (door.max_processes, door.max_processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.drop_privileges()
    try:
        os.chdir(plan.cwd)
    except OSError as error:
        raise Refused("client.no_such_directory", f"no directory {plan.cwd}: {error.strerror}") from error


def _offer_to_oom_killer() -> None:
    """When the whole machine runs out of memory, a command goes before the driver does. Root's to say."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"300")
        os.close(fd)
    except OSError:
        pass


def _detour(init: int, status: int) -> None:
    """Go on in a child that lives in the sandbox's pid namespace; stay behind to say how it ended."""
    kernel.setns(init, kernel.CLONE_NEWPID)
    if pid := os.fork():
        os.write(status, b"=%d\n" % os.waitpid(pid, 0)[1])
        os._exit(0)


def _execute(plan: Plan) -> None:
    env = dict(plan.env)
    if plan.argv is not None:
        try:
            os.execvpe(plan.argv[0], list(plan.argv), env)
        except OSError as error:
            os.write(2, f"{plan.argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
            os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
    arguments = _script_arguments(plan.script or b"")
    for shell in SHELLS:
        try:
            os.execve(shell, [os.path.basename(shell).encode(), *arguments], env)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    raise Refused("sandbox.broken_by_workload", "there is no shell left in the sandbox", "model")


def _script_arguments(script: bytes) -> list[bytes]:
    if len(script) < ARGUMENT_LIMIT:
        return [b"-c", script]
    fd = os.memfd_create("script", 0)
    # The first words close the descriptor for what the script starts; the shell reads through its own.
    text = memoryview(b"exec %d<&-; " % fd + script)
    while text:
        text = text[os.write(fd, text) :]
    return [b"/proc/self/fd/%d" % fd]
