import re

import msgspec

from orchard_cli.eval.render import html, markdown
from orchard_cli.eval.report import Cell, Report, ks, report
from orchard_cli.outcome import Outcome
from orchard_cli.schema import Eval
from orchard_cli.trajectory import Trajectory, Usage

S, U, X = Outcome.SOLVED, Outcome.UNSOLVED, Outcome.INFRA_ERROR
CFG = Eval(attempts=4, k=4, resamples=200)


def cell(policy, temperature, solved, n=1, tasks=20, lost=0, **options):
    made = []
    for t in range(tasks):
        for i in range(n):
            outcome = S if t < solved else U
            made.append(
                Trajectory(
                    f"{t}/{i}",
                    f"{t:02}",
                    "d",
                    policy,
                    "h",
                    (),
                    (),
                    outcome,
                    "",
                    family="ab"[t % 2],
                    usage=Usage(1, 2, 3),
                )
            )
    made += [Trajectory(f"x{i}", "00", "d", policy, "h", (), (), X, "error", family="a") for i in range(lost)]
    return Cell(policy, temperature, made, **options)


def full():
    cells = [cell(p, t, s, n) for t, n in ((0.0, 1), (1.0, 4)) for p, s in (("base", 0), ("sft", 9), ("rl", 12))]
    return report(cells, CFG, title="A <b> & c", manifest={"seed": 0, "commit": "<abc>"})


def test_each_policy_and_temperature_has_a_row_and_neighbours_are_compared():
    got = full()
    assert [(r.policy, r.temperature) for r in got.rows[:3]] == [("base", 0.0), ("sft", 0.0), ("rl", 0.0)]
    assert [e.name for e in got.rows[0].estimates] == ["pass@1"]
    assert [e.name for e in got.rows[3].estimates] == [
        *("pass@1", "pass@2", "pass@4", "pass^2", "pass^4"),
        *("pass@4 (plug-in)", "pass^4 (plug-in)"),
    ]
    pairs = [(c.temperature, c.difference.a, c.difference.b) for c in got.comparisons]
    assert pairs[:3] == [(0.0, "base", "sft"), (0.0, "sft", "rl"), (0.0, "base", "rl")] and len(pairs) == 6
    assert set(got.rows[1].families) == {"a", "b"} and got.rows[1].usage.completion_tokens == 60


def test_a_report_survives_json():
    got = full()
    assert msgspec.json.decode(msgspec.json.encode(got), type=Report) == got


def test_markdown_has_a_line_for_each_row_and_every_number_has_an_interval():
    text = markdown(full())
    assert "| sft | greedy | 45.0 % [25.8, 65.8] |" in text
    assert re.search(r"\| base → sft \| greedy \| \+45\.0 \[\+\d+\.\d, \+\d+\.\d\] \| 9 / 0 / 11 \| 0\.0039 \|", text)
    assert all(re.search(r"\[", line) for line in text.splitlines() if re.search(r"\d %", line))


def test_a_number_that_could_not_be_measured_is_a_reason_and_never_a_score():
    got = report([cell("sft", 0.0, 9, lost=10)], CFG, title="t")
    assert "not measured: 10 of 30 attempts could not be measured" in markdown(got)
    assert "45.0 %" not in markdown(got).split("## ")[0]
    assert "not measured: 10 of 30" in html(got)


def test_attempts_that_were_planned_and_never_made_are_missing_and_counted():
    got = report([cell("sft", 0.0, 9, planned=24)], CFG, title="t")
    assert got.rows[0].estimates[0].unmeasured == 4
    assert report([cell("sft", 0.0, 9, planned=90)], CFG, title="t").rows[0].estimates[0].value is None


def test_html_is_one_file_and_escapes_what_comes_from_outside():
    page = html(full())
    assert "http" not in page and "src=" not in page
    assert "<h1>A &lt;b&gt; &amp; c</h1>" in page and "&lt;abc&gt;" in page


def test_ks_double_up_to_the_largest():
    assert [ks(n) for n in (1, 2, 4, 6)] == [[1], [1, 2], [1, 2, 4], [1, 2, 4, 6]]


def test_families_of_one_part_have_a_row_together():
    made = [
        msgspec.structs.replace(t, family=f"{'old' if t.family == 'a' else 'new'}/{t.family}")
        for t in cell("p", 0.0, 3).trajectories
    ]
    (row,) = report([Cell("p", 0.0, made)], CFG, title="t").rows
    assert list(row.families) == ["new", "new/b", "old", "old/a"]
    assert row.families["old"].value == row.families["old/a"].value == 0.2
    assert row.families["new"].tasks == 10
