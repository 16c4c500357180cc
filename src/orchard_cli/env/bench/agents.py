"""The agent of a sandbox: how soon it is ready and what it holds, forked on this machine and packed for an image."""

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ..agent.pack import pack
from ..local.local import LocalEnv
from ..sandbox import Spec
from .times import Figures, Note, family, figures, sizes

COMMANDS = 800  # more than an agent keeps the results of


def agents(repeat: int, note: Note) -> dict[str, Figures]:
    """Milliseconds to ready, megabytes when new and after `COMMANDS` commands."""
    note("agents …")
    with LocalEnv() as env, env.open(Spec()) as box:
        pid = agent_of(env)
        found = {"forked, new: MB": sizes(pid)}
        for _ in range(COMMANDS):
            box.exec("echo hi")
        found[f"forked, after {COMMANDS} commands: MB"] = sizes(pid)
    times, size = _packed(max(3, repeat // 10))
    return {**found, "packed, new: MB": size, "packed, start to ready: ms": figures(times)}


def agent_of(env: LocalEnv) -> int:
    """The agent of the only sandbox of `env`."""
    return next(pid for pid in family([env.spawner_pid])[1:] if command(pid).startswith("python"))


def command(pid: int) -> str:
    """Its name; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _packed(repeat: int) -> tuple[list[float], Figures]:
    times, size = [], {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "agent.pyz")
        file.write_bytes(pack())
        for number in range(repeat):
            began = time.perf_counter()
            with started(file, f"{folder}/{number}", folder) as process:
                times.append((time.perf_counter() - began) * 1e3)
                size = sizes(process.pid)
                process.kill()
    return times, size


def started(file: Path, socket: str, workdir: str, token: str = "token") -> subprocess.Popen[bytes]:
    """A packed agent, as in an image; it listens when this returns."""
    command = [sys.executable, "-I", "-S", "-E", str(file), "--socket", socket, "--sandbox", "box"]
    argv = [*command, "--workdir", workdir]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdin.write(token.encode() + b"\n")
    process.stdin.close()
    process.stdout.readline()
    return process
