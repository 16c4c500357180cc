"""A real PostgreSQL server, started for the tests that need one."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _bin() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Postgres:
    """A cluster in a folder, on a loopback port; never as root, which it refuses."""

    def __init__(self, folder: Path, binaries: Path):
        self._data, self._bin, self._folder = folder / "data", binaries, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self._as:
            shutil.chown(folder, "postgres")
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "orchard", "--no-sync")
        self.start()

    def _run(self, program: str, *words: str) -> None:
        command = [*self._as, str(self._bin / program), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._folder, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def fresh(self, name: str) -> str:
        """The address of a database of one's own: servers that share one must find no rows of others there."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self._port), "-U", "orchard", name)
        return self.url.removesuffix("postgres") + name

    @property
    def url(self) -> str:
        return f"postgresql://orchard@127.0.0.1:{self._port}/postgres"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    pytest.importorskip("asyncpg", reason="the extra `postgres` is not installed")
    binaries = _bin()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # not below pytest's own folder, which is closed to every other user
    with tempfile.TemporaryDirectory(prefix="orchard-pg-") as folder:
        server = Postgres(Path(folder), binaries)
        yield server
        server.stop()
