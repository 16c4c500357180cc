"""pytest plugin of the grader: writes `{"word": …, "tests": {node id: outcome}}` to $TASK_REPORT.

It is loaded under a random name before any file of the tree under test. The word comes on standard input and
is kept here alone: a report without it was not written by this plugin.
"""

import json
import os
import sys
from typing import Any

_worker = "PYTEST_XDIST_WORKER" in os.environ  # its standard input belongs to the controller
_word = "" if _worker else sys.stdin.readline().strip()
_path = os.environ.pop("TASK_REPORT", "")
_results: dict[str, str] = {}
if not _worker:
    os.environ.pop("PYTEST_ADDOPTS", None)  # tests that run pytest themselves do not report


def pytest_runtest_logreport(report: Any) -> None:
    expected = hasattr(report, "wasxfail")
    if report.when == "call":
        outcome = report.outcome if not expected else "xpassed" if report.passed else "xfailed"
    elif report.failed:
        outcome = "error"
    elif report.skipped:
        outcome = "xfailed" if expected else "skipped"
    else:
        return
    if _results.get(report.nodeid) not in ("failed", "error"):
        _results[report.nodeid] = outcome


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _results[report.nodeid or "."] = "error"


def pytest_sessionfinish(session: Any) -> None:
    if _path and not _worker:
        with open(_path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123 - any Python, any pathlib
            json.dump({"word": _word, "tests": _results}, file)
        os.replace(_path + ".part", _path)  # noqa: PTH105
