"""Ways out, and that they are closed."""

import os
import socket
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec

PYTHON = ["python3", "-I", "-S", "-c"]
CTYPES = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"


def test_host_files_are_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    for path in (tmp_path, Path(__file__), "/etc/shadow", "/etc/ssh", "/sys/kernel", "/etc/ssl/private"):
        assert not sandbox.exec(["ls", str(path)]).ok, path
    assert sandbox.list("/root") == sandbox.list("/home") == sandbox.list("/mnt") == sandbox.list("/sys") == ()
    assert sandbox.exec("cat /etc/passwd").stdout.count(b"\n") == 2


def test_climbing_leads_to_the_sandbox_s_own_root(sandbox: Sandbox) -> None:
    own = sandbox.exec("stat -c %d:%i / /.. /../../.. /proc/1/root /proc/1/root/..").stdout.split()
    assert len(set(own[:3])) == 1
    assert not sandbox.exec("ls /proc/1/root/work /proc/1/cwd/ /proc/1/fd").ok


def test_no_network_at_all(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        port = listener.getsockname()[1]
        abstract.bind(f"\0orchard-test-{os.getpid()}")
        abstract.listen()
        script = f"""
import socket
def tries(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(2); s.connect(address); print("REACHED", address)
    except OSError as error: print(type(error).__name__)
tries(socket.AF_INET, ("127.0.0.1", {port}))
tries(socket.AF_INET, ("169.254.169.254", 80))
tries(socket.AF_INET, ("1.1.1.1", 53))
tries(socket.AF_INET6, ("2606:4700:4700::1111", 53))
tries(socket.AF_UNIX, "\\0orchard-test-{os.getpid()}")
try: socket.getaddrinfo("example.org", 80); print("REACHED dns")
except OSError: print("no dns")
"""
        said = sandbox.exec(["python3", "-c", script], timeout_s=20).stdout.decode()
    assert "REACHED" not in said and said.endswith("no dns\n") and said.count("Error") == 5
    assert sandbox.exec("tail -n +3 /proc/net/dev | cut -d: -f1").stdout.split() == [b"lo"]


def test_own_loopback_works(sandbox: Sandbox) -> None:
    script = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())"
    assert sandbox.exec([*PYTHON, script]).ok


def test_terminals_can_be_made(sandbox: Sandbox) -> None:
    assert sandbox.exec([*PYTHON, "import pty; pty.openpty()"]).ok
    assert sandbox.exec("test -t 0 || test -t 1 || : </dev/tty").exit_code != 0  # but none is given


def test_network_of_the_host() -> None:
    env = LocalEnv(network="host")
    with env, socket.create_server(("127.0.0.1", 0)) as listener, env.open(Spec()) as opened:
        assert opened.exec(f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}").ok
        assert env.describe()["network"] == "host"


def test_host_processes_cannot_be_seen_or_signalled(sandbox: Sandbox) -> None:
    seen = [int(name.rstrip("/")) for name in sandbox.list("/proc") if name.rstrip("/").isdigit()]
    assert len(seen) <= 3
    for pid in (os.getpid(), os.getppid(), -1):
        sandbox.exec(f"kill -9 {pid}")  # -1: everything that can be reached
    assert sandbox.exec("echo ok").stdout == b"ok\n"


def test_first_process_can_neither_be_ended_nor_traced(sandbox: Sandbox) -> None:
    assert sandbox.exec("kill -9 1; kill -TERM 1; kill -STOP 1; echo ok").stdout == b"ok\n"
    trace = CTYPES + "print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())"
    assert sandbox.exec([*PYTHON, trace]).stdout == b"-1 1\n"
    assert sandbox.exec("cat /proc/1/environ /proc/1/mem; ls -l /proc/1/fd/").exit_code != 0


def test_two_sandboxes_do_not_see_each_other(env: LocalEnv, sandbox: Sandbox) -> None:
    sandbox.exec("sleep 61 & echo x >/tmp/mine; echo x >/dev/shm/mine; ipcmk -Q")
    with env.open(Spec()) as other:
        assert (
            other.exec("pgrep sleep; ls /tmp /dev/shm; tail -n +2 /proc/sysvipc/msg").stdout == b"/dev/shm:\n\n/tmp:\n"
        )


FORBIDDEN = {
    "mount": "mount -t tmpfs none /mnt",
    "mount a fresh proc": "unshare -rmpf mount -t proc proc /mnt",
    "a user namespace of one's own": "unshare -r true",
    "a device": "mknod /tmp/d b 254 0 || mknod /tmp/c c 1 1",
    "system settings": 'v=$(cat /proc/sys/kernel/core_pattern); echo "$v" >/proc/sys/kernel/core_pattern',
    "more system settings": "echo 1 >/proc/sys/vm/drop_caches",
    "kernel memory": "head -c 1 /proc/kcore | grep . || head -c 1 /dev/mem",
    "another root": "chroot / true",
    "the clock": "date -s 2001-01-01",
    "the host name": "hostname other",
    "raw packets": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "files for /dev": "echo x >/dev/file",
    "a new owner": "chown 1 a.txt",
    "cgroups": "ls /sys/fs/cgroup/memory",
    "lower oom score": "echo -1000 >/proc/self/oom_score_adj",
}


@pytest.mark.parametrize("script", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_forbidden(sandbox: Sandbox, script: str) -> None:
    assert not sandbox.exec(f"({script}) >/dev/null 2>&1").ok


def test_no_capability_even_for_setuid_programs(sandbox: Sandbox) -> None:
    sandbox.exec("cp /bin/cat /tmp/cat; chmod 4755 /tmp/cat")
    status = sandbox.exec("/tmp/cat /proc/self/status").stdout.decode()
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert {fields[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Amb")} == {""}
    assert fields["NoNewPrivs"] == "1"


def test_key_ring_of_the_session_is_not_passed_on(sandbox: Sandbox) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call")
    describe = "n = libc.syscall(250, 6, -3, b, 256); print(b.value)"  # KEYCTL_DESCRIBE of the session's ring
    said = sandbox.exec([*PYTHON, CTYPES + "b = ctypes.create_string_buffer(256); " + describe]).stdout
    # Where calls are filtered, none of this is answered at all.
    assert b"_uid" not in said and (b"_ses" in said or said == b"b''\n")


def test_deleting_everything_stays_inside(env: LocalEnv, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "f").write_text("kept")
    with env.open(Spec(tree=tree)) as opened:
        opened.exec("rm -rf /workspace/* /etc /var /opt /root /usr/bin /usr/sbin /proc /dev 2>/dev/null; echo x >/etc")
        assert opened.list() == ()
    assert (tree / "f").read_text() == "kept" and Path("/usr/bin/env").exists()


def test_sandbox_without_a_shell_is_the_workload_s_doing(env: LocalEnv) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may delete the shell, even in its own sandbox")
    with env.open(Spec()) as opened:
        opened.exec("rm /usr/bin/bash /usr/bin/sh /usr/bin/dash")
        with pytest.raises(Exception, match="no shell") as caught:
            opened.exec("echo hi")
        fault = caught.value.fault  # type: ignore[attr-defined]
        assert (fault.code, fault.attributable) == ("sandbox.broken_by_workload", "model")
        assert opened.exec(["/usr/bin/echo", "hi"]).stdout == b"hi\n" and opened.diff() == ""
