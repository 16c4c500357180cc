"""A fork has the files of its origin, whatever has become of them, or there is none: nothing is missing in silence."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchard_cli.env.contained.choose import contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError

LOOK = """
import json, os, stat
found, groups = {}, {}
def look(path):
    facts = os.lstat(path)
    kind = facts.st_mode
    found[path] = [oct(kind), 0 if stat.S_ISLNK(kind) else round(facts.st_mtime, 3)]
    if stat.S_ISLNK(kind):
        found[path].append(os.readlink(path))
        return
    os.chmod(path, kind & 0o7777 | 0o700)
    if stat.S_ISREG(kind):
        found[path].append(open(path, errors="replace").read())
        groups.setdefault((facts.st_dev, facts.st_ino), []).append(path)
    elif stat.S_ISDIR(kind):
        for name in os.listdir(path):
            look(os.path.join(path, name))
for path in ("/workspace", "/changed"):
    if os.path.lexists(path):
        look(path)
print(json.dumps([found, sorted(sorted(group) for group in groups.values() if len(group) > 1)]))
"""
CASES = {
    "deleted": "rm file sub/x; mv two three",
    "directory made again": "rm -r sub; mkdir sub; echo q >sub/q",
    "directory moved": "mv sub moved; touch moved/new; mkdir sub",
    "closed file": "echo a >a; chmod 000 a; chmod 200 two",
    "closed directories": "mkdir -p k/m e; echo f >k/m/f; chmod 000 k/m k; chmod 300 e; chmod 000 sub",
    "closed and linked": "echo p >p; chmod 000 p; ln p q; echo z >z",
    "directory, now a link": "rm -r sub; ln -s real sub",
    "directory, now a file": "rm -r sub; echo f >sub",
    "file, now a directory": "rm two; mkdir two; echo f >two/f",
    "link, now a directory": "mkdir real/below; echo k >real/below/k; rm link; mkdir -p link/below; echo f >link/f",
    "read-only, less": "chmod 755 closed; rm closed/x; chmod 555 closed",
    "read-only, more": "chmod 755 closed; echo n >closed/n; chmod 555 closed",
    "read-only, gone": "chmod 755 closed; rm -r closed",
    "called as the list is": """echo '{"/workspace": []}' >/changed; echo a >a""",
    # something beside it: the top's own time is that of its mount, which on a busy machine is long before the agent
    "directory called so": "mkdir -m 700 /changed; touch beside",
}


@pytest.fixture(scope="module", params=["container", "gvisor"])
def place(request: pytest.FixtureRequest) -> Iterator[ContainedEnv]:
    try:
        env = contained(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    with env:
        yield env


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for name in ("file", "two", "sub/x", "sub/y", "real/x", "closed/x"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(name)
    (tree / "link").symlink_to("real")
    (tree / "closed").chmod(0o555)
    time.sleep(1.0)  # what was made just before counts as changed
    return tree


def seen(box: Sandbox) -> Any:
    return json.loads(box.exec(["python3", "-c", LOOK]).stdout)


@pytest.mark.parametrize("case", CASES)
def test_fork_has_the_files_of_its_origin(place: ContainedEnv, tree: Path, case: str) -> None:
    with place.open(Spec(tree=tree)) as box:
        box.exec(CASES[case])
        with box.fork() as twin:
            assert seen(twin) == seen(box)


@pytest.mark.parametrize(
    "script",
    ["while true; do head -c 9000000 /dev/zero >big; : >big; done", "while true; do mkdir -p v/w/x; rm -r v; done"],
    ids=["shorter", "gone"],
)
def test_fork_while_files_change(place: ContainedEnv, script: str) -> None:
    with place.open(Spec()) as box:
        box.write("kept", b"1")
        box.start(script, timeout_s=100)
        for _ in range(3):
            with box.fork() as twin:
                assert twin.read("kept") == b"1"


def test_what_lies_too_deep_is_told(place: ContainedEnv) -> None:
    deep = "import os\nfor _ in range(30):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\nopen('f', 'w')"
    with place.open(Spec()) as box:
        assert box.exec(["python3", "-c", deep]).ok
        with pytest.raises(SandboxError, match="too long") as caught:
            box.fork()
        assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.too_deep", "model")
        assert box.exec("echo on").stdout == b"on\n"


def test_a_copy_that_breaks_off_is_told_as_that(place: ContainedEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as the loss of a sandbox: both live."""

    def broken(*_: object) -> Iterator[bytes]:
        yield b"x" * 512
        raise ConnectionResetError("the agent has closed the connection")

    monkeypatch.setattr("orchard_cli.env.wire.Wire.kept", broken)
    with place.open(Spec()) as box:
        with pytest.raises(SandboxError) as caught:
            box.fork()
        assert caught.value.fault.code == "infra.copy_failed"
        assert box.exec("echo on").stdout == b"on\n"
