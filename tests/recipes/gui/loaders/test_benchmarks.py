"""The benchmarks' own files: good lines become tasks, bad ones are named, passed dates are told."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.gui.loaders import load
from orchard_cli.recipes.gui.loaders.benchmarks import level_of, sites, start_url

from orchard_cli.errors import ConfigError, DataError

TODAY = date(2026, 11, 1)
VOYAGER = {
    "web_name": "Allrecipes",
    "id": "Allrecipes--0",
    "ques": "Find a lasagne.",
    "web": "https://www.allrecipes.com/",
}
MIND2WEB = {
    "task_id": "20a460a8",
    "confirmed_task": "Find the cheapest flight on March 3, 2024.",
    "website": "https://www.kayak.com/",
    "reference_length": 7,
    "level": "medium",
}
SHOP = {
    "id": "Amazon--31",
    "web_name": "Amazon",
    "ques": "Find a red mug under $20, best rated first.",
    "web": "https://www.amazon.com/",
    "attribute": "red",
    "filter": "under $20",
    "sort": "None",
}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def test_webvoyager_with_its_reference_answers(tmp_path: Path) -> None:
    answers = {"Allrecipes": {"notice": "", "answers": [{"id": 0, "type": "possible", "ans": "Easy lasagne"}]}}
    (tmp_path / "reference_answer.json").write_text(json.dumps(answers))
    second = VOYAGER | {"id": "Allrecipes--1"}
    found = load("webvoyager", lines(tmp_path / "WebVoyager_data.jsonl", VOYAGER, "", second), today=TODAY)
    first, other = found.tasks
    assert (first.id, first.prompt, first.family, first.split) == (
        "Allrecipes--0",
        "Find a lasagne.",
        "Allrecipes",
        "eval",
    )
    assert first.data["start_url"] == "https://www.allrecipes.com/" and first.data["site"] == "allrecipes.com"
    assert first.hidden == {"reference": {"ans": "Easy lasagne", "type": "possible"}} and other.hidden == {}
    assert not found.problems and not found.expired and sites(found.tasks) == {"allrecipes.com": 2}


def test_online_mind2web_as_a_list_with_levels(tmp_path: Path) -> None:
    path = tmp_path / "Online_Mind2Web.json"
    bare = {"task_id": "x1", "confirmed_task": "Do it.", "website": "kayak.com", "reference_length": 11}
    path.write_text(json.dumps([MIND2WEB, bare]))
    found = load("mind2web", path, today=TODAY)
    assert [t.data["level"] for t in found.tasks] == ["medium", "hard"]
    assert found.tasks[1].data["start_url"] == "https://kayak.com" and found.tasks[1].data["reference_length"] == 11
    late = f"{path}:1: `confirmed_task`: 20a460a8 asks for March 3, 2024, which has passed"
    assert list(map(str, found.expired)) == [late]
    assert list(found.notes()) == [f"{path}: 1 tasks ask for dates that have passed", late]


def test_deepshop_keeps_the_requirements_that_a_query_has(tmp_path: Path) -> None:
    found = load(
        "deepshop", lines(tmp_path / "d.jsonl", SHOP, SHOP | {"id": "Amazon--32", "attribute": None}), today=TODAY
    )
    assert found.tasks[0].hidden == {"requirements": {"attribute": "red", "filter": "under $20"}}
    assert found.tasks[1].hidden == {"requirements": {"filter": "under $20"}}


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ({k: v for k, v in VOYAGER.items() if k != "ques"}, "ques", "missing"),
        (VOYAGER | {"web": 3}, "web", "Expected `str`, got `int`"),
        (VOYAGER | {"web": "javascript:alert(1)"}, "web", "is no address of the web"),
        (VOYAGER | {"web": "file:///etc/passwd"}, "web", "is no address of the web"),
        (VOYAGER | {"id": "../../x"}, "id", "cannot name a folder"),
        (VOYAGER | {"ques": "  "}, "task", "nothing to do"),
        (VOYAGER, "id", "there twice"),
        ("[1]", "", "a task is an object, not list"),
        ('"text"', "", "a task is an object, not str"),
        ("null", "", "a task is an object, not NoneType"),
        ("{broken", "", "not JSON"),
        ("[" * 100_000, "", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_the_good_ones_are_kept(tmp_path: Path, row: Any, field: str, message: str) -> None:
    path = lines(tmp_path / "tasks.jsonl", VOYAGER, row, VOYAGER | {"id": "Allrecipes--9"})
    found = load("webvoyager", path, today=TODAY)
    assert [t.id for t in found.tasks] == ["Allrecipes--0", "Allrecipes--9"]
    (problem,) = found.problems
    named = (problem.message.startswith(message) or message in problem.message) or "deeply" in problem.message
    assert (problem.file, problem.line, problem.field) == (str(path), 2, field) and named
    assert str(problem).startswith(f"{path}:2: ") and f"{path}: 2 tasks are good, 1 rows are not" in list(found.notes())


def test_a_level_that_nobody_knows_is_a_problem(tmp_path: Path) -> None:
    found = load("mind2web", lines(tmp_path / "t.jsonl", MIND2WEB | {"level": "brutal"}), today=TODAY)
    assert not found.tasks and found.problems[0].field == "level"


def test_bytes_that_are_no_text_are_one_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(VOYAGER).encode() + b"\n\xff\xfe\n")
    found = load("webvoyager", path, today=TODAY)
    assert len(found.tasks) == 1 and found.problems[0].message == "not UTF-8 at byte 0"


@pytest.mark.parametrize("name", ["no.jsonl", "tasks.csv", "folder.jsonl", "object.json", "broken.json"])
def test_a_file_that_cannot_be_read_at_all_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "broken.json").write_text("[")
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        load("webvoyager", tmp_path / name, today=TODAY)


def test_reference_answers_of_another_shape_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "reference_answer.json").write_text('{"Allrecipes": []}')
    with pytest.raises(DataError, match="reference_answer"):
        load("webvoyager", lines(tmp_path / "t.jsonl", VOYAGER), today=TODAY)


def test_an_unknown_benchmark_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="webvoyage`"):
        load("webvoyage", tmp_path / "x.jsonl", today=TODAY)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*VOYAGER, "x"]), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANY, max_size=5))
def test_every_row_is_a_task_or_a_problem(tmp_path: Path, found: list[Any]) -> None:
    path = lines(tmp_path / "any.jsonl", *map(json.dumps, found))
    loaded = load("webvoyager", path, today=TODAY)
    assert len(loaded.tasks) + len(loaded.problems) == len(found)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("www.a.com", "https://www.a.com"),
        ("http://a.com/x?y", "http://a.com/x?y"),
        (" https://a.com ", "https://a.com"),
        ("http://localhost:80/", "http://localhost:80/"),
        ("ftp://a.com", ""),
        ("http://a b.com", ""),
        ("http://a.com:x", ""),
        ("http://[", ""),
        ("a", ""),
        ("", ""),
    ],
)
def test_only_addresses_of_the_web_are_start_urls(text: str, url: str) -> None:
    assert start_url(text) == url


def test_levels_follow_the_reference_length() -> None:
    assert [level_of(n) for n in (0, 1, 5, 6, 10, 11)] == ["", "easy", "easy", "medium", "medium", "hard"]
