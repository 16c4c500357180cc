"""Which parts of an agent's diff are graded.

Left out are changes to the hidden tests' own files, and whatever could decide what the test run says instead of
what the code does: pytest's configuration, `conftest.py`, start-up modules, and new modules at an import root
that would stand in for pytest or the standard library. What the reference fix itself touches is always graded.
"""

import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from .diffs import sections

START_UP = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py"})
CONFIGURATION = frozenset({"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"})
LITTER = frozenset({"__pycache__", ".pytest_cache", ".git", ".mypy_cache", ".ruff_cache", ".hypothesis"})
TEST_TOOLS = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "unittest"})


def clean(diff: str) -> str:
    """The diff without what running things leaves behind: byte code, caches, the repository's own files."""
    return "".join(s.text for s in sections(diff) if not any(map(_litter, s.paths)))


def admit(diff: str, gold: str, test_files: Iterable[str]) -> tuple[str, list[str]]:
    """(what is graded, paths that are left out) of an agent's diff."""
    always = {p for s in sections(gold) for p in s.paths}
    protected = set(test_files) - always
    kept, left_out = [], []
    for section in sections(diff):
        names = [p for p in section.paths if p not in always]
        barred = [p for p in names if p in protected or _decides(p) or (section.new and _stands_in(p))]
        if barred:
            left_out += barred
        else:
            kept.append(section.text)
    return "".join(kept), sorted(set(left_out))


def id_file(test_id: str) -> str:
    """The file of a pytest node id if it looks like a test's, else empty (doctests live in source files)."""
    name = test_id.split("::", 1)[0] if "::" in test_id else ""
    path = PurePosixPath(name)
    is_test = path.name.startswith("test") or path.stem.endswith("_test") or "tests" in path.parts[:-1]
    return name if is_test else ""


def _litter(path: str) -> bool:
    parts = PurePosixPath(path)
    return bool(LITTER.intersection(parts.parts)) or parts.suffix == ".pyc"


def _decides(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.name in START_UP or parts.suffix == ".pth" or path in CONFIGURATION


def _stands_in(path: str) -> bool:
    parts = PurePosixPath(path.removeprefix("src/")).parts
    root = parts[0].split(".")[0] if parts else ""
    return root in TEST_TOOLS or root in sys.stdlib_module_names
