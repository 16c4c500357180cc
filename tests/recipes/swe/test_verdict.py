"""The rule that decides, and the logs it is fed from."""

import json

import pytest
from orchard_cli.recipes.swe.verdict import from_log, from_report, judge


@pytest.mark.parametrize(
    ("outcome", "as_fix", "as_kept"),
    [
        ("passed", True, True),
        ("xfailed", True, True),
        ("skipped", False, True),
        ("failed", False, False),
        ("error", False, False),
        ("xpassed", False, False),
    ],
)
def test_each_outcome_counts_as_the_rule_says(outcome: str, as_fix: bool, as_kept: bool) -> None:
    assert judge({"t": outcome}, ["t"], []).solved is as_fix
    assert judge({"t": outcome}, [], ["t"]).solved is as_kept


def test_a_test_that_is_not_reported_failed() -> None:
    verdict = judge({"a": "passed"}, ["a", "b"], ["c"])
    assert (verdict.fail_to_pass, verdict.pass_to_pass, verdict.failed) == ((1, 2), (0, 1), ("b", "c"))


def test_an_id_cut_off_inside_its_parameters_needs_all_that_begin_so() -> None:
    outcomes = {"t.py::a[x y]": "passed", "t.py::a[x z]": "failed", "t.py::b[x y]": "passed"}
    assert judge(outcomes, ["t.py::b[x"], []).solved
    assert not judge(outcomes, ["t.py::a[x"], []).solved
    assert not judge(outcomes, ["t.py::c[x"], []).solved


def test_a_pytest_log_is_read_also_in_colour_and_only_between_the_markers() -> None:
    log = """PASSED t.py::forged
>>>>> Start Test Output
\x1b[32mPASSED\x1b[0m t.py::test_a
FAILED t.py::test_b - assert 1 == 2
ERROR t.py::test_c - boom
SKIPPED [1] t.py:3: no
XFAIL t.py::test_d - known
>>>>> End Test Output
PASSED t.py::test_b
"""
    assert from_log(log, "pytest") == {
        "t.py::test_a": "passed",
        "t.py::test_b": "failed",
        "t.py::test_c": "error",
        "[1]": "skipped",
        "t.py::test_d": "xfailed",
    }


def test_django_and_sympy_logs_are_read() -> None:
    django = "test_a (forms.tests.T) ... ok\ntest_b (forms.tests.T) ... FAIL\ntest_c (x.Y)\nWords. ... ok\n"
    assert from_log(django, "django") == {"test_a (forms.tests.T)": "passed", "test_b (forms.tests.T)": "failed"}
    assert from_log("test_x ok\ntest_y F\ntest_z E\n", "sympy") == {
        "test_x": "passed",
        "test_y": "failed",
        "test_z": "error",
    }


def test_a_report_counts_only_with_its_word() -> None:
    forged = json.dumps({"t": "passed"}).encode()
    signed = json.dumps({"word": "w", "tests": {"t": "passed"}}).encode()
    assert from_report(forged, "w") == {}
    assert from_report(signed, "other") == {}
    assert from_report(signed, "w") == {"t": "passed"}
    assert from_report(forged, "") == {"t": "passed"}


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b'{"t": 1}', b"[" * 100_000])
def test_anything_else_reports_nothing(data: bytes) -> None:
    assert from_report(data, "") == {}
    assert from_report(data, "w") == {}
