"""Every shipped family is sound, and the sets drawn from them keep training and eval apart."""

import pytest
from orchard_cli.recipes.claw.tasks.family import Family, make
from orchard_cli.recipes.claw.tasks.library import shipped
from orchard_cli.recipes.claw.tasks.proof import faults, play
from orchard_cli.recipes.claw.tasks.sets import FAMILIES, SEEDS, TaskSet, fingerprint

from orchard_cli import schema
from orchard_cli.errors import ConfigError


@pytest.mark.parametrize("family", shipped().values(), ids=lambda f: f.name)
def test_the_plan_scores_1_nothing_scores_0_and_wrong_ways_fail(family: Family) -> None:
    assert faults(make(family, seed=7, split="train")) == []


def test_there_are_forty_families_and_a_thousand_tasks() -> None:
    drawn = TaskSet(schema.Tasks(kind="all", train=1000, eval=120), 0)
    tasks = [*drawn.of("train"), *drawn.of("eval")]
    assert len(shipped()) >= 40 and len(tasks) == 1120
    assert len({t.id for t in tasks}) == len(tasks)


def test_every_kind_of_difficulty_is_there_in_several_families() -> None:
    tags = [tag for family in shipped().values() for tag in family.tags]
    for tag in ("injection", "ambiguous", "confirm", "impossible", "faults", "multi", "irreversible"):
        assert tags.count(tag) >= 2, tag


def test_train_and_eval_share_neither_draws_nor_held_out_families() -> None:
    drawn = TaskSet(schema.Tasks(kind="everyday", train=300, eval=60), 0)
    train, held = list(drawn.of("train")), list(drawn.of("eval"))
    assert not {fingerprint(t) for t in train} & {fingerprint(t) for t in held}
    apart = {t.family.split("/")[1] for t in held if t.family.startswith(FAMILIES)}
    seen = {t.family.split("/")[1] for t in held if t.family.startswith(SEEDS)}
    trained = {t.family for t in train}
    assert apart and not apart & trained and seen == trained


def test_the_same_seed_draws_the_same_tasks_and_another_seed_others() -> None:
    def prompts(seed: int) -> list[str]:
        return [t.prompt for t in TaskSet(schema.Tasks(kind="everyday", train=30, eval=10), seed).of("train")]

    assert prompts(1) == prompts(1) != prompts(2)


def test_the_policy_is_told_nothing_of_the_checks_and_the_world_holds_no_plan() -> None:
    for family in shipped().values():
        task = make(family, seed=3, split="eval")
        assert set(task.data) == {"world"}


def test_a_family_that_there_is_not_is_an_error_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        TaskSet(schema.Tasks(kind="everyday", train=1, eval=1, families=["todo_ad"]), 0)
    assert "todo_add" in caught.value.hint


def test_more_tasks_than_can_be_drawn_is_an_error() -> None:
    few = TaskSet(schema.Tasks(kind="all", train=400, eval=1, families=["todo_add"]), 0)
    with pytest.raises(ConfigError, match="different tasks can be drawn"):
        list(few.of("train"))


@pytest.mark.parametrize(
    "tasks",
    [
        schema.Tasks(kind="nothing"),
        schema.Tasks(kind="all", path="x.yaml"),
        schema.Tasks(kind="file"),
        schema.Tasks(kind="claw_bench", train=3),
    ],
)
def test_settings_that_a_task_set_does_not_read_are_errors(tasks: schema.Tasks) -> None:
    with pytest.raises(ConfigError):
        TaskSet(tasks, 0)


def test_a_faulty_service_costs_nothing_if_the_agent_recovers_and_the_score_says_so() -> None:
    task = make(shipped()["todo_flaky"], seed=1, split="train")
    assert play(task, task.hidden["plan"]).grade.details["faults"] == [2, 2]
