"""Task files as people write them: what they mean, and how a mistake is named."""

from pathlib import Path

import pytest
from orchard_cli.recipes.claw.tasks.library import load
from orchard_cli.recipes.claw.tasks.reading import Problem, documents
from orchard_cli.recipes.claw.tasks.sets import TaskSet

from orchard_cli import schema
from orchard_cli.errors import DataError

PAGE = """\
family: f
say: "Add a todo: buy milk."
want:
  - row: todo
    where: {text: buy milk}
plan:
  - todo_add: {text: buy milk}
"""


def _problem(tmp_path: Path, text: str) -> Problem:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    found, problems = load(file)
    assert not found and len(problems) == 1
    return problems[0]


def test_times_days_and_answers_stay_text(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("at: 12:30\nday: 2026-03-01\nsaid: no\nyes: true\nn: 3\nx: 1.5\nid: 007\n")
    ((_, page),) = documents(file)
    assert page == {"at": "12:30", "day": "2026-03-01", "said": "no", "yes": True, "n": 3, "x": 1.5, "id": "007"}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (("family: f", "famly: f"), "famly", "did you mean `family`"),
        (("family: f\n", ""), "family", "is missing"),
        (("- row: todo", "- row: todos"), "want[0].row", "did you mean `todo`"),
        (("- row: todo", "- rwo: todo"), "want[0].rwo", "no such field"),
        (("{text: buy milk}\nplan", "{text: {contain: milk}}\nplan"), "want[0].where.text.contain", "did you mean"),
        (("todo_add:", "todo_ad:"), "plan[0]", "did you mean `todo_add`"),
        (("todo_add: {text", "todo_add: {txt"), "plan[0].todo_add", "did you mean `text`"),
        (("todo_add: {text: buy milk}", "todo_add: {}"), "plan[0].todo_add", "argument `text` is missing"),
        (('say: "Add a todo: buy milk."', 'say: "Hello {who}."'), "say", "is not drawn"),
        (('say: "Add a todo: buy milk."', "say: {a: 1}"), "say", "text or a list is needed"),
        (("family: f", "family: f\ndraw: {who: {pick: persons}}"), "draw.who", "no pool `persons`"),
        (("family: f", "family: f\ndraw: {n: {whole: [9]}}"), "draw.n", "cannot be drawn"),
        (("family: f", "family: f\nworld: {mail: []}"), "", "world.mail"),
        (("family: f", "family: f\nnoise: {mails: 99}"), "noise.mails", "up to 12"),
        (("family: f", "family: f\nsplit: test"), "split", "train or eval"),
        (("family: f", "family: f\nnever: [{call: bank_pay}]"), "never[0].call", "no operation `bank_pay`"),
        (("family: f", "family: f\nslips: {s: {due: x}}"), "slips.s", "changes nothing"),
        (("family: f", "family: f\nfamily: g"), "", "given twice"),
        (("family: f", "family: [f"), "", "line"),
        (("family: f", "family: &a f\nabout: *a"), "", "aliases"),
    ],
)
def test_a_mistake_is_named_by_file_number_and_field(
    tmp_path: Path, change: tuple[str, str], field: str, message: str
) -> None:
    problem = _problem(tmp_path, PAGE.replace(*change))
    assert problem.file.endswith("t.yaml") and problem.number == 1
    assert problem.field == field
    assert message in problem.message


def test_good_pages_are_used_beside_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{PAGE}---\nfamily: broken\n---\n{PAGE.replace('family: f', 'family: g')}")
    tasks = TaskSet(schema.Tasks(kind="file", path=str(tmp_path)), 0)
    assert [t.id for t in tasks.of("eval")] == ["f-0", "g-0"] and not list(tasks.of("train"))
    (problem,) = tasks.problems
    assert (problem.number, problem.field) == (2, "say")


def test_two_families_of_one_name_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{PAGE}---\n{PAGE}")
    _, problems = load(tmp_path)
    assert "twice" in problems[0].message


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "\x00", "a: {b: " * 2000])
def test_a_file_without_a_task_is_an_error_and_not_a_crash(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(DataError, match=r"t\.yaml"):
        TaskSet(schema.Tasks(kind="file", path=str(file)), 0)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(DataError, match=r"no \.yaml file"):
        load(tmp_path)
