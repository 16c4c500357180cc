"""The whole thing without root: user namespaces do what root did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv

SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1].split(":")
from pathlib import Path
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Limits, Spec
with LocalEnv(limits=Limits(memory_mb=128, pids=40, disk_mb=24)) as env, env.open(Spec(tree=Path(sys.argv[2]))) as box:
    out = {"facts": env.describe(), "who": box.exec("id -u").stdout.decode()}
    box.exec("rm -r d; mkdir d; echo new >d/new; echo more >>f; echo x >/etc/x; echo x >/opt/x")
    with box.fork() as fork:
        out["same"] = fork.diff() == box.diff() and fork.list("d") == ("new",)
    out["diff"] = box.diff()
    out["timeout"] = box.exec("setsid sleep 81 & sleep 82", timeout_s=0.2).reason
    out["sleeping"] = box.exec("pgrep sleep").stdout.decode()
    out["oom"] = box.exec("python3 -c 'x = []\\nwhile True: x.append(bytearray(4_000_000))'", timeout_s=20).reason
    out["bomb"] = box.exec("bomb() { bomb | bomb & }; bomb; sleep 5", timeout_s=0.5).reason
    out["after"] = box.exec("echo ok").stdout.decode()
    out["base"] = str(env.base)
print(json.dumps(out))
"""


def test_sandboxes_work_for_an_ordinary_user(shared_env: LocalEnv, tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    if os.geteuid() != 0:
        pytest.skip("then every other test has shown it")
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not Path(python).exists() or subprocess.run([python, "-c", version]).returncode:
        pytest.skip("no Python outside of root's reach that can load our packages")
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "d" / "old").write_text("old\n")
    (tree / "f").write_text("f\n")
    subprocess.run(["chown", "-R", "65534:65534", tree], check=True)
    for folder in (tmp_path, *tmp_path.parents[:3]):  # the third is there when tests run side by side
        folder.chmod(folder.stat().st_mode | 0o055)
    paths = ":".join([str(Path(__file__).parents[3] / "src"), *(p for p in sys.path if "site-packages" in p)])
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"]
    done = subprocess.run(
        [*user, python, "-c", SCRIPT, paths, str(tree)], capture_output=True, text=True, cwd="/", timeout=120
    )
    if "ModuleNotFoundError" in done.stderr or "unprivileged" in done.stderr:
        pytest.skip("this user cannot read our packages, or the machine keeps user namespaces from it")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["facts"]["isolation"] == "bwrap" and all(out["facts"]["proven"].values())
    assert out["who"] == "0\n" and out["same"] is True
    assert "+more" in out["diff"] and "d/old" in out["diff"] and "d/new" in out["diff"]
    assert (out["timeout"], out["sleeping"], out["oom"]) == ("timeout", "", "oom")
    assert out["bomb"] in ("timeout", "pid_limit") and out["after"] == "ok\n"
    assert not Path(out["base"]).exists()
