"""The shop in a real sandbox: it starts without a network, serves, and leaves a state that can be graded."""

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from orchard_cli.recipes.gui.shop import host
from orchard_cli.recipes.gui.shop.grade import grade
from orchard_cli.recipes.gui.shop.tasks import generate

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import GradeError, SandboxError

TASK = next(t for t in generate("train", 40, families=["quantity"]))
FETCH = """
import sys, urllib.request
data = sys.argv[2].encode() if len(sys.argv) > 2 else None
print(urllib.request.urlopen(sys.argv[1], data).read().decode())
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with LocalEnv() as env, env.open(Spec()) as opened:
        yield opened


def fetch(sandbox: Sandbox, url: str, *form: str) -> str:
    done = sandbox.exec(["python3", "-c", FETCH, url, *form])
    assert done.ok, done.stderr
    return done.stdout.decode()


def test_a_shop_in_a_sandbox_is_used_and_graded(sandbox: Sandbox) -> None:
    shop = host.start(TASK, sandbox)
    assert "Millrace Market" in fetch(sandbox, shop.url)
    assert grade(TASK, host.state(sandbox, shop), "")[0] == 0.0
    (product, n), *_ = TASK.hidden["changes"]["cart"].items()
    fetch(sandbox, f"{shop.url}cart/add/{product}", f"quantity={n}")
    assert grade(TASK, host.state(sandbox, shop), "")[0] == 1.0


def test_nothing_in_the_sandbox_tells_the_token(sandbox: Sandbox) -> None:
    shop = host.start(TASK, sandbox, folder="/tmp/.other")
    said = sandbox.exec("cat /tmp/.other/* /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null").stdout
    assert b"server.py" in said and shop.token.encode() not in said


def test_a_shop_that_cannot_start_is_an_infrastructure_fault(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="did not start"):
        host.start(TASK, sandbox, folder="/tmp/.third", python="/bin/false")


def test_a_state_that_is_gone_is_the_verifiers_fault(sandbox: Sandbox) -> None:
    shop = host.start(TASK, sandbox, folder="/tmp/.fourth")
    sandbox.exec(["rm", shop.state_file])
    with pytest.raises(GradeError, match="gone"):
        host.state(sandbox, shop)


def test_the_command_of_a_lasting_shop_works_as_written(tmp_path: Path) -> None:
    words = host.command(str(host.HERE), "secret", str(tmp_path / "state.json"))
    argv = [word.format(python=sys.executable, port=0) for word in words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        try:
            port = int(running.stdout.readline())  # type: ignore[union-attr]
            method, path, headers, _ = host.look("secret")
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, method=method)
            with urllib.request.urlopen(asked, timeout=10) as reply:
                assert json.load(reply)["cart"] == {}
        finally:
            running.kill()
