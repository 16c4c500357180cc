"""System calls that are refused to whatever runs in a sandbox, and that ordinary programs do not miss them."""

import errno
import platform
import signal
import struct

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.spawner import seccomp
from orchard_cli.env.sandbox import Sandbox

COLUMN = {"x86_64": 0, "aarch64": 1}.get(platform.machine(), -1)
PYTHON = ["python3", "-I", "-S", "-c"]
CALL = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    print(libc.syscall(int(number), 0, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
MATTERS = pytest.mark.skipif(COLUMN < 0, reason="system calls of another machine")


@pytest.fixture
def filtered(env: LocalEnv, sandbox: Sandbox) -> Sandbox:
    if env.describe()["seccomp"] != "deny-list":
        pytest.skip("this kernel takes no filters")
    return sandbox


def answers(sandbox: Sandbox, numbers: list[int]) -> list[bytes]:
    return sandbox.exec([*PYTHON, CALL, *map(str, numbers)]).stdout.splitlines()


@MATTERS
def test_listed_calls_are_refused_to_every_command(filtered: Sandbox) -> None:
    for listed, number in ((seccomp.NUMBERS, errno.EPERM), (seccomp.ABSENT, errno.ENOSYS)):
        said = answers(filtered, [numbers[COLUMN] for numbers in listed.values()])
        assert dict(zip(listed, said, strict=True)) == dict.fromkeys(listed, b"-1 %d" % number)


def test_first_process_and_commands_are_filtered_alike(filtered: Sandbox) -> None:
    said = filtered.exec("cat /proc/self/status /proc/1/status | grep -e ^Seccomp: -e ^NoNewPrivs:").stdout
    assert said.split() == [b"NoNewPrivs:", b"1", b"Seccomp:", b"2"] * 2


def test_proven_at_start(env: LocalEnv, filtered: Sandbox) -> None:
    proven = env.describe()["proven"]
    assert isinstance(proven, dict) and proven["seccomp"]


@pytest.mark.parametrize(
    ("family", "protocol", "allowed"),
    [(1, 0, True), (2, 0, True), (10, 0, True), (16, 0, True), (16, 15, False), (16, 12, False)]
    + [(17, 3, False), (38, 0, False), (40, 0, False), (31, 0, False), (44, 0, False)],
)
def test_sockets_of_ordinary_families_only(filtered: Sandbox, family: int, protocol: int, allowed: bool) -> None:
    kind = 5 if family == 38 else 3 if family in (16, 17) else 1
    script = f"""
import socket
try: socket.socket({family}, {kind}, {protocol}).close(); print("made")
except OSError as error: print(error.errno)
"""
    said = filtered.exec([*PYTHON, script]).stdout
    assert said == (b"made\n" if allowed else b"%d\n" % errno.EPERM)


@pytest.mark.parametrize("request_number", [0x5412, 0x541C, 0x5412 | 1 << 40])
def test_nobody_types_into_a_terminal(filtered: Sandbox, request_number: int) -> None:
    script = f"""
import ctypes, os, pty, termios
libc = ctypes.CDLL(None, use_errno=True)
master, slave = pty.openpty()
os.setsid() if os.getsid(0) != os.getpid() else None
print(libc.ioctl(slave, ctypes.c_ulong({request_number}), b"x"), ctypes.get_errno())
print(len(termios.tcgetattr(slave)))
"""
    assert filtered.exec([*PYTHON, script]).stdout == b"-1 1\n7\n"


@MATTERS
def test_no_user_namespace_by_any_way(filtered: Sandbox) -> None:
    script = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
new = 0x10000000
print(libc.unshare(new), ctypes.get_errno(), libc.unshare(new | 0x20000), ctypes.get_errno())
print(libc.syscall({seccomp.LOOKED_AT["clone"][COLUMN]}, new | 17, 0, 0, 0, 0), ctypes.get_errno())
"""
    assert filtered.exec([*PYTHON, script]).stdout == b"-1 1 -1 1\n-1 1\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls that only x86-64 has twice")
def test_other_sets_of_calls_end_the_caller(filtered: Sandbox) -> None:
    x32 = filtered.exec([*PYTHON, CALL, str(0x40000000 + 39)])
    assert (x32.reason, x32.signal) == ("signaled", signal.SIGSYS)
    assert answers(filtered, [-1]) == [b"-1 %d" % errno.ENOSYS]
    # mov eax, 20; int 0x80; ret: getpid by the gate for 32-bit programs
    script = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    old = filtered.exec([*PYTHON, script])
    assert (old.reason, old.signal) == ("signaled", signal.SIGSYS)


ORDINARY = {
    "threads": "import threading; t = threading.Thread(target=print, args=('ok',)); t.start(); t.join()",
    "processes": "import multiprocessing as m; print(m.get_context('forkserver').Pool(1).map(str, ['ok'])[0])",
    "forked workers": "import multiprocessing as m; print(m.get_context('fork').Pool(2).map(str, ['ok'])[0])",
    "subprocesses": "import subprocess; print(subprocess.run(['echo', 'ok'], capture_output=True, text=True).stdout)",
    "interfaces": "import socket; print('ok' if 'lo' in [n for _, n in socket.if_nameindex()] else '')",
    "names": "import socket; print(socket.getaddrinfo('localhost', 80) and 'ok')",
    "terminals": "import pty, os; pty.spawn(['echo', 'ok'])",
    "traced children": "import ctypes, os; print('ok' if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0 else '')",
}


@pytest.mark.parametrize("script", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_programs_work(filtered: Sandbox, script: str) -> None:
    result = filtered.exec(["python3", "-c", f"if __name__ == '__main__':\n    {script}"], timeout_s=30)
    assert result.ok and b"ok" in result.stdout, result.stderr


def test_git_works(filtered: Sandbox) -> None:
    identity = "-c user.name=a -c user.email=b"
    script = f"git init -q . && git {identity} commit -qm x --allow-empty && git log --oneline | wc -l"
    assert filtered.exec(script).stdout == b"1\n"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_is_well_formed_for_every_machine(machine: str) -> None:
    """Every path ends in a verdict, every jump lands inside; what cannot be known has no filter."""
    whole = seccomp.program(machine)
    steps = list(struct.iter_unpack("HBBI", whole))
    assert 90 < len(steps) < 4096 and steps[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)
    assert all(at + 1 + max(yes, no) < len(steps) for at, (_, yes, no, _) in enumerate(steps[:-1]))
    assert seccomp.program("m68k") == b""


VERDICTS = [
    ("x86_64", 0xC000003E, 165, 0, "EPERM"),
    ("x86_64", 0xC000003E, 435, 0, "ENOSYS"),
    ("x86_64", 0xC000003E, 0, 0, ""),
    ("x86_64", 0x40000003, 0, 0, "killed"),
    ("x86_64", 0xC000003E, 0x40000000, 0, "killed"),
    ("x86_64", 0xC000003E, 0xFFFFFFFF, 0, ""),
    ("aarch64", 0xC00000B7, 40, 0, "EPERM"),
    ("aarch64", 0xC00000B7, 165, 0, ""),
    ("aarch64", 0xC00000B7, 220, 17, ""),
    ("aarch64", 0xC00000B7, 220, 0x10000011, "EPERM"),
    ("aarch64", 0xC00000B7, 198, 40, "EPERM"),
    ("aarch64", 0xC00000B7, 198, 2, ""),
    ("aarch64", 0x40000028, 63, 0, "killed"),
]


@pytest.mark.parametrize(("machine", "name", "number", "first", "wanted"), VERDICTS)
def test_verdict(machine: str, name: int, number: int, first: int, wanted: str) -> None:
    seen = struct.pack("<IIQ6Q", number, name, 0, first, 0, 0, 0, 0, 0)
    verdicts = {
        "EPERM": seccomp.REFUSE | errno.EPERM,
        "ENOSYS": seccomp.REFUSE | errno.ENOSYS,
        "killed": seccomp.KILL,
        "": seccomp.ALLOW,
    }
    assert judged(seccomp.program(machine), seen) == verdicts[wanted]


def judged(program: bytes, seen: bytes) -> int:
    """What a kernel of any machine says to this call: the few steps that the filter is made of."""
    steps, at, held = list(struct.iter_unpack("HBBI", program)), 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return value
        if code == seccomp.LOAD:
            held = struct.unpack_from("<I", seen, value)[0]
            continue
        tests = {seccomp.EQUAL: held == value, seccomp.AT_LEAST: held >= value, seccomp.ANY_BIT: bool(held & value)}
        at += yes if tests[code] else no
