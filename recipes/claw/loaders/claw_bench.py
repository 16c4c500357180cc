"""claw-bench (PyPI `claw-bench`, Apache-2.0): 222 tasks in a workspace, each with a pytest file and a solution.

`tasks.path` names its `tasks` folder, or its wheel; without it, the one that is installed beside this Python is taken.
"""

import hashlib
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from orchard_cli.errors import ConfigError, DataError, disk_error
from orchard_cli.task import Task

from ..tasks.reading import Problem

INSIDE = "share/claw-bench/tasks"
PLUGIN = """\
import pathlib, pytest

def pytest_addoption(parser):
    parser.addoption("--workspace", action="store")

@pytest.fixture
def workspace(request):
    return pathlib.Path(request.config.getoption("--workspace"))
"""
NEEDED = ("task.toml", "instruction.md", "verifier/test_output.py")


def read(path: str) -> Iterator[Task | Problem]:
    """Every task, or what is wrong with it. Raises `DataError` or `ConfigError` if there is no such set."""
    root = folder(path)
    places = sorted(root.glob("*/*/task.toml"))
    yield from (_task(place.parent) for place in places)
    if not places:
        raise DataError(f"{root}: no task of claw-bench is below this folder", hint="tasks.path=…/claw-bench/tasks")


def _task(place: Path) -> Task | Problem:
    for name in NEEDED:
        if not (place / name).is_file():
            return Problem(str(place), 1, name, "is missing")
    try:
        about = tomllib.loads((place / "task.toml").read_text())
        said = (place / "instruction.md").read_text().replace("workspace/", "/workspace/")
        test = (place / "verifier/test_output.py").read_text()
        solution = place / "solution/solve.sh"
        timeout = float(about.get("timeout", 120))
        return Task(
            f"claw_bench/{about['id']}",
            "claw",
            said.strip(),
            "eval",
            f"{about.get('domain', place.parent.name)} {about.get('level', '')}".strip(),
            data={"environment": str((place / "environment").resolve())},
            hidden={
                "grader": "pytest",
                "files": {"workspace_option.py": PLUGIN, "task/verifier/test_output.py": test},
                "plugin": "workspace_option",
                "test": "task/verifier/test_output.py",
                "solution": solution.read_text() if solution.is_file() else "",
                "timeout_s": max(timeout, 30.0),
            },
        )
    except KeyError as error:
        return Problem(str(place / "task.toml"), 1, str(error.args[0]), "is missing")
    except (OSError, ValueError) as error:
        return Problem(str(place / "task.toml"), 1, "", str(error))


def folder(path: str) -> Path:
    """The `tasks` folder: given, in a wheel, or installed."""
    if not path:
        place = Path(sysconfig.get_path("data"), INSIDE)
        if not place.is_dir():
            raise ConfigError(
                "tasks=claw_bench: the package `claw-bench` is not installed",
                hint="pip install claw-bench, or tasks.path=FOLDER|WHEEL",
            )
        return place
    given = Path(path)
    if given.suffix == ".whl" and given.is_file():
        return _unpacked(given)
    if not given.is_dir():
        raise DataError(f"{given}: no such folder or wheel", hint="tasks.path=…/claw-bench/tasks, or claw_bench-….whl")
    inner = given / INSIDE
    return inner if inner.is_dir() else given


def _unpacked(wheel: Path) -> Path:
    """The wheel's tasks in the cache, by its contents."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]
    target = user_cache_path("orchard") / "claw_bench" / digest
    done = target / "done"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with FileLock(target / ".lock"):
            if not done.exists():
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(target, [n for n in archive.namelist() if f"/{INSIDE}/" in f"/{n}"])
                done.touch()
    except OSError as error:
        raise disk_error(error, target, "unpacked") from error
    except zipfile.BadZipFile as error:
        raise DataError(f"{wheel}: not a wheel: {error}", hint="is the file complete?") from error
    places = sorted(target.glob(f"**/{INSIDE}"))
    if not places:
        raise DataError(f"{wheel}: holds no tasks of claw-bench", hint="pip download claw-bench --no-deps")
    return places[0]
