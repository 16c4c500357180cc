"""One environment for the whole run, and an audit around every test that uses it: nothing may be left behind."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec

Open = Callable[..., Sandbox]


@pytest.fixture(scope="session")
def shared_env() -> Iterator[LocalEnv]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with LocalEnv() as env:
        yield env


@pytest.fixture
def env(shared_env: LocalEnv) -> Iterator[LocalEnv]:
    before = traces(shared_env)
    yield shared_env
    assert settled(lambda: traces(shared_env), before) == before


@pytest.fixture
def sandbox(env: LocalEnv, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox over a tree with one file, `a.txt`."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("one\ntwo\n")
    with env.open(Spec(tree=tree)) as opened:
        yield opened


def traces(env: LocalEnv) -> dict[str, object]:
    """What an environment holds of this machine: processes, mounts, descriptors, cgroups, folders."""
    spawner = env.spawner_pid
    root = Path(f"/proc/{spawner}")
    seen = {"processes": children(spawner), "cgroups": sorted(str(path) for path in cgroups(env.base.name))}
    if os.geteuid():  # a user's spawner hides the rest from its equals
        return seen
    return seen | {
        "mounts": [line for line in (root / "mountinfo").read_text().splitlines() if not of_another(line, env)],
        "descriptors": len(list((root / "fd").iterdir())),
        "folders": sorted(path.name for path in (root / "root" / str(env.base).lstrip("/")).iterdir()),
    }


def of_another(mount: str, env: LocalEnv) -> bool:
    """Without isolation the mounts are this machine's, where other environments come and go."""
    return "/orchard-env-" in mount and env.base.name not in mount


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def cgroups(name: str) -> list[Path]:
    """Folders below any cgroup that bears this environment's name."""
    found = []
    for folder, below, _ in os.walk("/sys/fs/cgroup"):
        if Path(folder).name == name:
            found += [Path(folder, child) for child in below]
            below.clear()
        # Others' sandboxes come and go meanwhile; they are none of ours.
        below[:] = [child for child in below if not child.startswith("orchard-env-") or child == name]
    return found


def settled(look: Callable[[], object], wanted: object, seconds: float = 10.0) -> object:
    """The last thing seen, once it is the wanted one or time is up: the kernel lets go a little later."""
    until = time.monotonic() + seconds
    while (seen := look()) != wanted and time.monotonic() < until:
        time.sleep(0.02)
    return seen


def alive(pid: int) -> bool:
    """Not gone, and not merely waiting for a slow reaper."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
