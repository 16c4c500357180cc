import pytest

from orchard_cli.credit.record import Finding, credit, dump, load
from orchard_cli.credit.value import Anchor, curve
from orchard_cli.errors import DataError


def test_a_record_holds_the_interpolated_values_and_the_rises_and_comes_back_equal(tmp_path):
    found = Finding(curve(3, (Anchor(0, 0.0), Anchor(2, 1.0)), resolved=False), problems={"grade.timeout": 1})
    made = credit("a", "t", found, method="branch", epsilon=0.05, rule="interval")
    assert made.values == (0.0, 0.5, 1.0, 0.0) and made.rising == ((0, 2),)
    path = tmp_path / "credit.jsonl"
    dump([made], path)
    assert list(load(path)) == [made] and [p.name for p in tmp_path.iterdir()] == ["credit.jsonl"]


def test_an_attempt_without_a_curve_has_no_rise():
    made = credit("a", "t", Finding(None, note="why"), method="teacher", epsilon=0.05, rule="step")
    assert made.rising == () and made.values == () and made.note == "why"


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "credit.jsonl"
    path.write_text('{"trajectory": 3}\n')
    with pytest.raises(DataError, match=r"credit.jsonl:1: .*trajectory"):
        list(load(path))
