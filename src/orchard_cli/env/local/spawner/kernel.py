"""The few system calls that Python 3.11 does not offer: namespaces, mounts, capabilities."""

import ctypes
import itertools
import os
import platform
import struct
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV = 2, 4
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2

MNT_EXPIRE = 4

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same number on every architecture
_FSOPEN, _FSCONFIG, _FSMOUNT, _FSPICK = 430, 431, 432, 433
_AT_FDCWD, _EMPTY_PATH, _RECURSIVE, _CLONE, _FROM_AND_TO_EMPTY_PATH = -100, 0x1000, 0x8000, 1, 0x44
_BENEATH = 0x244  # with both paths given as descriptors (Linux 6.5)
_SET_FLAG, _SET_STRING, _CREATE, _RECONFIGURE = 0, 1, 6, 7
_FS_CLOEXEC, _PICK_EMPTY_PATH, _NOSUID_NODEV = 1, 8, 6
_READ_ONLY_NOSUID_NODEV = 7

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECUREBITS, NO_NEW_PRIVS = 1, 4, 28, 38
_PR_SET_SECCOMP, _FILTER, _PR_CAPBSET_DROP = 22, 2, 24
_NO_ROOT_LOCKED = 0x2F  # NOROOT, NO_SETUID_FIXUP, their locks, and KEEP_CAPS locked off
_CAPSET_HEAD = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))  # version 3, this process
_CAPSET_NONE = ctypes.create_string_buffer(24)
_CAPSET = ctypes.addressof(_CAPSET_HEAD), ctypes.addressof(_CAPSET_NONE)

_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine(), -1)  # the call has a number of its own

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
_libc.unshare.argtypes = [ctypes.c_int]
_libc.capset.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_keyctl = _libc["syscall"]  # a function object of its own: declared arguments cost a child less
_keyctl.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p]


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def counts_processes_by_namespace() -> bool:
    """Since 5.14 a limit of processes counts those of its user namespace; before, all that the user has anywhere."""
    major, _, rest = os.uname().release.partition(".")
    minor = "".join(itertools.takewhile(str.isdigit, rest)) or "0"
    return (int(major), int(minor)) >= (5, 14)


def setns(fd: int, kinds: int) -> None:
    """Enter namespaces. `fd` is a pidfd (any set of kinds, all or none) or one namespace file."""
    _check(_libc.setns(fd, kinds), "setns")


def unshare(kinds: int) -> None:
    _check(_libc.unshare(kinds), "unshare")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options)
    )
    _check(done, f"mount {kind or 'bind'} {source} on {target}")


def bind_read_only(source: str, target: int) -> None:
    """Show `source`, and what is mounted below it, at an open place: read-only, no setuid, no devices (Linux 5.12)."""
    tree = _call(_OPEN_TREE, "open", source, _AT_FDCWD, os.fsencode(source), _CLONE | _RECURSIVE | os.O_CLOEXEC)
    try:
        attributes = ctypes.create_string_buffer(struct.pack("QQQQ", _READ_ONLY_NOSUID_NODEV, 0, 0, 0))
        _call(_MOUNT_SETATTR, "protect", source, tree, b"", _EMPTY_PATH | _RECURSIVE, attributes, 32)
        _call(_MOVE_MOUNT, "show", source, tree, b"", target, b"", _FROM_AND_TO_EMPTY_PATH)
    finally:
        os.close(tree)


def detached(folder: int, name: str = ".") -> int:
    """A mount of its own of a directory, shown nowhere; alive as long as the descriptor."""
    return _call(_OPEN_TREE, "clone", name, folder, os.fsencode(name), _CLONE | os.O_CLOEXEC)


def overlay(options: Iterable[tuple[str, str]]) -> int:
    """A new overlay without a place, no setuid, no devices. Layers one by one need Linux 6.7."""
    making = _call(_FSOPEN, "open", "overlay", b"overlay", _FS_CLOEXEC)
    try:
        for key, value in options:
            how, text = (_SET_STRING, os.fsencode(value)) if value else (_SET_FLAG, None)
            _call(_FSCONFIG, "set", key, making, how, key.encode(), text, 0)
        _call(_FSCONFIG, "make", "overlay", making, _CREATE, None, None, 0)
        return _call(_FSMOUNT, "mount", "overlay", making, _FS_CLOEXEC, _NOSUID_NODEV)
    finally:
        os.close(making)


def slip_beneath(mount_fd: int, place: int) -> None:
    """Attach a mount below the topmost one at an open place: seen when that is taken away."""
    _call(_MOVE_MOUNT, "slip", "a mount beneath", mount_fd, b"", place, b"", _BENEATH)


def resize(folder: int, size: int) -> None:
    """Of the tmpfs that `folder` is on, in bytes."""
    picked = _call(_FSPICK, "pick", "tmpfs", folder, b"", _FS_CLOEXEC | _PICK_EMPTY_PATH)
    try:
        _call(_FSCONFIG, "set", "size", picked, _SET_STRING, b"size", b"%d" % size, 0)
        _call(_FSCONFIG, "resize", "tmpfs", picked, _RECONFIGURE, None, None, 0)
    finally:
        os.close(picked)


def _call(number: int, doing: str, what: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    done = int(_libc.syscall(ctypes.c_long(number), *wide))
    _check(done, f"{doing} {what}")
    return done


def umount(target: str, how: int = MNT_DETACH) -> None:
    """Take a mount and all below it out of this namespace; other namespaces keep theirs.

    `how` 0: only what nobody uses. `MNT_EXPIRE`, the first time: `EAGAIN` if nobody uses it, and it stays.
    """
    _check(_libc.umount2(os.fsencode(target), how), f"umount {target}")


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    return int(_libc.prctl(option, first, second, 0, 0))


def hide_memory() -> None:
    """No process without power over this user namespace may trace us or look into our /proc entries."""
    prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(signal_number: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal_number)


def forget_keys() -> None:
    """Leave the key ring of the login session for an empty one."""
    if _KEYCTL >= 0:
        _keyctl(_KEYCTL, 1, None)


def keep_privileges_from_programs() -> None:
    """Ours stay; no program that a child of ours becomes can have or get any, setuid or not."""
    _check(prctl(NO_NEW_PRIVS, 1), "no new privileges")
    _check(prctl(_PR_SET_SECUREBITS, _NO_ROOT_LOCKED), "securebits")
    number = 0
    while prctl(_PR_CAPBSET_DROP, number) == 0:
        number += 1


def drop_privileges() -> None:
    """Give up every capability for good, also for programs that root or a setuid bit would give some."""
    _check(prctl(NO_NEW_PRIVS, 1), "no new privileges")
    prctl(_PR_SET_SECUREBITS, _NO_ROOT_LOCKED)  # a second lock; one without capabilities may not, and need not
    _check(_libc.capset(*_CAPSET), "capset")


def refuse_calls(program: bytes) -> None:
    """A filter (see `seccomp`) for this process and all that it will start; needs no new privileges to be set."""
    steps = ctypes.create_string_buffer(program, len(program))
    whole = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(steps)))
    _check(prctl(_PR_SET_SECCOMP, _FILTER, ctypes.addressof(whole)), "seccomp")


OWN = os.pidfd_open(os.getpid())
OWN_PID_NAMESPACE = os.stat("/proc/self/ns/pid").st_ino
