"""A server that is killed leaves nothing behind, forgets nothing that matters, and runs nothing twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from .conftest import ROOT, Rest


@contextmanager
def serve(state: Path, *more: str, port: str = "0") -> Iterator[tuple[Rest, "subprocess.Popen[str]"]]:
    """`orchard env serve`, killed without notice at the end if it still runs."""
    argv = [sys.executable, "-m", "orchard_cli", "env", "serve", "--port", port, "--state", str(state), *more]
    said = state.with_name(f"{state.name}.said")
    with (
        said.open("a") as err,
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=err, text=True, env={**os.environ, "ORCHARD_ENV_API_KEY": ROOT}
        ) as server,
    ):
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            assert url, said.read_text()
            yield Rest(url, ROOT, state), server
        finally:
            server.kill()


def running(mark: str) -> list[int]:
    """Processes of this machine whose command line holds `mark`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def gone(mark: str) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not running(mark):
            return True
        time.sleep(0.1)
    return False


def test_a_killed_server_leaves_no_orphans_and_what_ran_is_not_run_again(tmp_path: Path) -> None:
    key, mark = {"Idempotency-Key": "once"}, f"98{os.getpid()}"
    with serve(tmp_path / "state") as (rest, server):
        id = rest.make(id="box")
        begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": f"exec sleep {mark}"}, key)
        assert begun.status == 202
        until = time.monotonic() + 10
        while not running(f"sleep\0{mark}") and time.monotonic() < until:
            time.sleep(0.05)
        assert running(f"sleep\0{mark}")
        server.send_signal(signal.SIGKILL)
        server.wait()
    assert gone(f"sleep\0{mark}")
    with serve(tmp_path / "state") as (rest, _):
        assert rest("GET", "/v1/sandboxes").json["items"] == []
        lost = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": f"exec sleep {mark}"}, key)
        assert (lost.status, lost.code, lost.json["effect"], lost.json["retry"]) == (
            410,
            "infra.sandbox_lost",
            "unknown",
            "fresh",
        )
        assert not running(f"sleep\0{mark}")
        assert rest.make(id="box") == "box"


def test_killed_while_many_are_made(tmp_path: Path) -> None:
    with serve(tmp_path / "state") as (rest, server), ThreadPoolExecutor(8) as pool:
        makes = [pool.submit(rest, "POST", "/v1/sandboxes", {"labels": {"n": str(n)}}) for n in range(24)]
        makes[8].result()
        server.send_signal(signal.SIGKILL)
        server.wait()
        for made in makes:
            made.exception()
        left = [path for path in Path("/tmp").glob(f"orchard-env-{server.pid}-*")]
    with serve(tmp_path / "state") as (rest, _):
        assert rest("GET", "/v1/sandboxes").json["items"] == []
        assert rest("GET", "/readyz").status == 200
    assert not [path for path in left if path.exists()]


def test_a_server_that_is_asked_to_stop_closes_all(tmp_path: Path) -> None:
    mark = f"97{os.getpid()}"
    with serve(tmp_path / "state") as (rest, server):
        rest("POST", f"/v1/sandboxes/{rest.make()}/execs", {"script": f"exec sleep {mark}"})
        server.terminate()
        assert server.wait(60) == 0
    assert not running(f"sleep\0{mark}")
    assert not list((tmp_path / "state").glob("*-wal"))
