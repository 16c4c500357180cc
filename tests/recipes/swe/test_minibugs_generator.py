"""Generated tasks: the same for the same seed, split cleanly, proven."""

import ast
import json
import os
import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from orchard_cli.recipes.swe.minibugs import FAMILIES, draw, generate, proof, tree
from orchard_cli.recipes.swe.minibugs.catalog import bodies
from orchard_cli.recipes.swe.minibugs.normal import normal_form, split_of

from orchard_cli.errors import ConfigError
from orchard_cli.task import Split, Task

from .test_minibugs_catalog import ast_form

TRAIN, EVAL = 1500, 500


@pytest.fixture(scope="module")
def tasks() -> dict[Split, list[Task]]:
    return {"train": list(generate("train", TRAIN, 0)), "eval": list(generate("eval", EVAL, 0))}


def module_of(task: Task) -> str:
    return task.data["files"][task.hidden["script"]["file"]]


def fixed(task: Task) -> str:
    lines = module_of(task).splitlines()
    line, old, new = task.hidden["script"]["fix"]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    return "\n".join(lines) + "\n"


def forms(source: str) -> set[str]:
    """The normal forms of a module's functions, by syntax tree."""
    return {ast_form(ast.unparse(node)) for node in ast.parse(source).body}


def test_no_function_of_the_evaluation_split_is_ever_in_training(tasks: dict[Split, list[Task]]) -> None:
    seen = {
        split: set().union(*(forms(module_of(t)) | forms(fixed(t)) for t in found)) for split, found in tasks.items()
    }
    assert len(seen["train"]) > 800
    assert len(seen["eval"]) > 300
    assert not seen["train"] & seen["eval"]


def test_no_pair_of_family_and_body_is_in_both_splits(tasks: dict[Split, list[Task]]) -> None:
    pairs = {
        s: {(t.family, f) for t in found for f in forms(fixed(t)) - forms(module_of(t))} for s, found in tasks.items()
    }
    assert not pairs["train"] & pairs["eval"]


def test_every_possible_pair_keeps_to_one_split() -> None:
    """Not only what one seed drew: whatever may be drawn for a split is made of forms that it owns."""
    for split in ("train", "eval"):
        for family in FAMILIES:
            for group in draw.of_family(split, family).values():
                assert all(split_of(normal_form(body.text())) == split for body in group)
        assert all(split_of(normal_form(body.text())) == split for body in draw.small(split))


def test_all_families_are_in_both_splits_equally_often(tasks: dict[Split, list[Task]]) -> None:
    for found in tasks.values():
        counts = Counter(task.family for task in found)
        assert set(counts) == set(FAMILIES)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_a_seed_always_gives_the_same_tasks_and_another_gives_others() -> None:
    first = list(generate("train", 30, 7))
    assert first == list(generate("train", 30, 7))
    others = list(generate("train", 30, 8))
    assert not {t.hidden["patch"] for t in first} & {t.hidden["patch"] for t in others}


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    assert list(generate("eval", 20, 3)) == list(islice(generate("eval", 60, 3), 20))


def test_ids_are_stable_and_no_task_comes_twice(tasks: dict[Split, list[Task]]) -> None:
    assert tasks["train"][123].id == "minibugs-train-000123"
    everything = [task for found in tasks.values() for task in found]
    assert len({task.id for task in everything}) == TRAIN + EVAL
    assert len({(task.prompt, module_of(task)) for task in everything}) == TRAIN + EVAL


def test_what_was_given_up_is_counted_by_reason() -> None:
    drops = Counter[str]()
    list(generate("eval", 56, 0, drops=drops))
    assert drops["other_split"] > 0
    assert set(drops) <= {"other_split", "hasty", "invisible", "ambiguous", "no_slip", "unproven", "repeat"}


def test_only_the_families_that_are_asked_for() -> None:
    assert {task.family for task in generate("train", 6, 0, families=("swap", "logical"))} == {"swap", "logical"}
    with pytest.raises(ConfigError, match=r"no family \['typo'\]"):
        next(generate("train", 1, 0, families=("typo",)))


def test_the_issue_is_short_names_the_file_and_comes_in_many_wordings(tasks: dict[Split, list[Task]]) -> None:
    shapes = set()
    for task in tasks["train"]:
        file = task.hidden["script"]["file"]
        name = task.hidden["fail_to_pass"][0].removeprefix("test_")
        assert file in task.prompt
        assert len(task.prompt) < 250
        shapes.add(
            (task.prompt.split()[0].replace(file, "FILE").split("(")[0].replace(name, "NAME"), name in task.prompt)
        )
    assert len(shapes) >= 6
    assert any(not named for _, named in shapes)


def test_hidden_tests_hold_the_visible_ones_and_more(tasks: dict[Split, list[Task]]) -> None:
    for task in tasks["train"][:300]:
        visible = task.data["files"]["tests.py"].splitlines()
        hidden = task.hidden["test_files"]["tests.py"].splitlines()
        assert set(visible) <= set(hidden)
        assert len([line for line in hidden if "eq(" in line]) > len([line for line in visible if "eq(" in line])


def test_nothing_hidden_is_in_the_project(tasks: dict[Split, list[Task]]) -> None:
    for task in tasks["eval"][:300]:
        assert set(task.data) == {"files", "test_cmd"}
        assert fixed(task) not in task.data["files"].values()
        assert task.hidden["test_files"]["tests.py"] not in task.data["files"].values()


def single_edits(task: Task) -> list[str]:
    """The module after each single edit of its broken function."""
    parts = module_of(task).removesuffix("\n").split("\n\n")
    at = next(i for i, part in enumerate(parts) if part not in fixed(task).removesuffix("\n").split("\n\n"))
    made = proof.neighbours(parts[at] + "\n")
    return ["\n\n".join([*parts[:at], text.removesuffix("\n"), *parts[at + 1 :]]) + "\n" for text in made]


def test_no_other_single_edit_passes_what_is_shown_and_fails_what_is_hidden(tasks: dict[Split, list[Task]]) -> None:
    """So that issue, file and visible tests say which edit is meant."""
    tried = passing = 0
    for task in tasks["train"][::12]:
        module = task.hidden["script"]["file"].removesuffix(".py")
        versions = single_edits(task)
        for version, shown in zip(
            versions, proof.outcomes(module, versions, task.data["files"]["tests.py"]), strict=True
        ):
            tried += 1
            if all(shown.values()):
                passing += 1
                (found,) = proof.outcomes(module, [version], task.hidden["test_files"]["tests.py"])
                assert all(found.values()), (task.id, version)
    assert tried > 500
    assert passing > 20


def report(task: Task, folder: Path) -> dict[str, str]:
    path = folder / "report.json"
    subprocess.run(
        task.hidden["test_cmd"].split(), cwd=folder, env={**os.environ, "TASK_REPORT": str(path)}, capture_output=True
    )
    found = json.loads(path.read_text())
    path.unlink()
    return found


def test_the_real_test_command_agrees_before_and_after_the_reference_patch(
    tmp_path: Path, tasks: dict[Split, list[Task]]
) -> None:
    for task in tasks["train"][:8] + tasks["eval"][:8]:
        folder = tmp_path / task.id
        subprocess.run(["cp", "-r", tree(task, tmp_path / "cache"), folder], check=True)
        for path, text in task.hidden["test_files"].items():
            (folder / path).write_text(text)
        fail, keep = task.hidden["fail_to_pass"], task.hidden["pass_to_pass"]
        assert fail and keep
        assert report(task, folder) == {t: "failed" if t in fail else "passed" for t in report(task, folder)}
        subprocess.run(["patch", "-p1", "-s"], input=task.hidden["patch"], text=True, cwd=folder, check=True)
        after = report(task, folder)
        assert after == dict.fromkeys(after, "passed")
        assert set(after) == {*fail, *keep}


def test_the_pool_is_not_used_up() -> None:
    """Far more bodies than any family needs, so that a task is rarely drawn twice."""
    assert len(bodies()) > 2000
    assert min(sum(map(len, draw.of_family("eval", family).values())) for family in FAMILIES) >= 30
