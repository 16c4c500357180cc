"""Rows that bring no source but name a container image: SWE-bench Verified and its relatives.

Source: formats reference, 2.4, 2.5 and 2.7. The commands are those that the twelve repositories of SWE-bench
Verified are known to be tested with; other rows must bring `test_cmd` or `eval_script`.
"""

import shlex
from collections.abc import Mapping
from typing import Any

_ACTIVATE = "source /opt/miniconda3/bin/activate && conda activate testbed && "
_PYTEST = "pytest -rA --color=no -p no:cacheprovider"
_OTHERS = {
    "django/django": (
        "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
        "django",
    ),
    "sympy/sympy": (
        "PYTHONWARNINGS=ignore::UserWarning,ignore::SyntaxWarning bin/test -C --verbose",
        "sympy",
    ),
    "sphinx-doc/sphinx": ("tox --current-env -epy39 -v --", "pytest"),
}
_PYTEST_REPOS = (
    "astropy/astropy",
    "matplotlib/matplotlib",
    "mwaskom/seaborn",
    "pallets/flask",
    "psf/requests",
    "pydata/xarray",
    "pylint-dev/pylint",
    "pytest-dev/pytest",
    "scikit-learn/scikit-learn",
)


def image_of(row: Mapping[str, Any]) -> str:
    """The row's own image, or the name under which SWE-bench publishes it."""
    for column in ("image", "image_name", "docker_image"):
        if isinstance(row.get(column), str) and row[column]:
            return str(row[column])
    name = str(row["instance_id"]).replace("__", "_1776_")
    return f"swebench/sweb.eval.x86_64.{name}:latest".lower()


def workdir_of(row: Mapping[str, Any]) -> str:
    """Where the repository lies in the image."""
    return str(row.get("workdir") or "/testbed")


def command_of(repo: str, test_files: list[str]) -> tuple[str, str] | None:
    """(test command, name of its log format) for a repository that is known, else None."""
    if repo in _PYTEST_REPOS:
        command, log = _PYTEST, "pytest"
    elif repo in _OTHERS:
        command, log = _OTHERS[repo]
    else:
        return None
    names = [_django_label(f) for f in test_files] if log == "django" else test_files
    return f"{_ACTIVATE}{command} {shlex.join(names)}", log


def _django_label(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
