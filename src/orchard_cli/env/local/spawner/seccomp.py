"""System calls that nothing in a sandbox needs, and through which others got out: refused by a filter in the kernel.

A deny-list in classic BPF, assembled here; the fence behind namespaces and capabilities, not in place of them. A
process keeps it for good, and so does whatever it starts. Numbers are those of Linux' `asm/unistd.h`.
"""

import errno
import os
import platform
import struct
from collections.abc import Iterator

from . import kernel

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # a word; three tests; the verdict
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000  # the last with an error number
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16  # where they lie in what a filter sees; of an argument, the lower half
X32 = 0x40000000  # bit of the numbers of x86-64's other, forgotten set of calls
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # put words into a terminal as if they were typed
FAMILIES = {"UNIX": 1, "INET": 2, "INET6": 10}
NETLINK, NETLINK_ROUTE = 16, 0

NUMBERS = {  # name: (x86-64, arm64); none is needed by a program that has no privilege, or it can do without
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "open_by_handle_at": (304, 265),
}
ABSENT = {  # as on an older kernel: programs then take the older way, whose arguments can be seen
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
}
LOOKED_AT = {"clone": (56, 220), "unshare": (272, 97), "socket": (41, 198), "ioctl": (16, 29)}
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # what the kernel calls it; column above

Step = tuple[int, int, int, int]  # code, steps to pass over if true and if false, operand


def program(machine: str = platform.machine()) -> bytes:  # noqa: B008 - of this process, once
    """The filter for this machine; empty for one whose calls we do not know."""
    if machine not in MACHINES:
        return b""
    name, column = MACHINES[machine]
    steps = [(LOAD, 0, 0, MACHINE), *_unless(EQUAL, name, KILL), (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":  # -1 is no call, but what is left of one that a tracer took away
        steps += [(EQUAL, 2, 0, 0xFFFFFFFF), *_if(AT_LEAST, X32, KILL)]
    for calls, verdict in ((NUMBERS, REFUSE | errno.EPERM), (ABSENT, REFUSE | errno.ENOSYS)):
        for numbers in calls.values():
            steps += _if(EQUAL, numbers[column], verdict)
    for call, numbers in LOOKED_AT.items():
        look = list(_looks(call))
        steps += [(EQUAL, 0, len(look), numbers[column]), *look]
    return b"".join(struct.pack("HBBI", *step) for step in (*steps, (RETURN, 0, 0, ALLOW)))


def _looks(call: str) -> Iterator[Step]:
    """What decides over a call by its arguments, to the end. The kernel, too, takes no more than their lower halves."""
    no = REFUSE | errno.EPERM
    if call == "ioctl":
        yield (LOAD, 0, 0, ARGUMENTS + 8)
        yield from (*_if(EQUAL, TIOCSTI, no), *_if(EQUAL, TIOCLINUX, no))
    elif call == "socket":
        yield (LOAD, 0, 0, ARGUMENTS)
        for family in FAMILIES.values():
            yield from _if(EQUAL, family, ALLOW)
        yield from (*_unless(EQUAL, NETLINK, no), (LOAD, 0, 0, ARGUMENTS + 16), *_unless(EQUAL, NETLINK_ROUTE, no))
    else:
        yield from ((LOAD, 0, 0, ARGUMENTS), *_if(ANY_BIT, kernel.CLONE_NEWUSER, no))
    yield (RETURN, 0, 0, ALLOW)


def _if(test: int, value: int, verdict: int) -> tuple[Step, Step]:
    return (test, 0, 1, value), (RETURN, 0, 0, verdict)


def _unless(test: int, value: int, verdict: int) -> tuple[Step, Step]:
    return (test, 1, 0, value), (RETURN, 0, 0, verdict)


def usable() -> bytes:
    """The filter, if this kernel takes it: tried in a child. Empty otherwise."""
    calls = program()
    pid = os.fork()
    if pid == 0:
        try:
            kernel.prctl(kernel.NO_NEW_PRIVS, 1)
            kernel.refuse_calls(calls)
        except BaseException:  # noqa: BLE001 - last stop before the child would run the parent's code
            os._exit(1)
        os._exit(0)
    return calls if os.waitpid(pid, 0)[1] == 0 else b""
