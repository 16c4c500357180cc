"""The domain as the stages use it: task sets, attempts through the harness, grades, faults."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.gui import Config, Domain

from orchard_cli import schema
from orchard_cli.compose import compose
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.errors import ConfigError, GradeError
from orchard_cli.launch.local import launch
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.task import Task
from orchard_cli.trajectory import Blobs, Message, Trajectory

REACT = schema.Harness(kind="react", format="calls", max_steps=15)
PAGES = ["click-test", "enter-text", "click-tab-2"]


def domain(config: Config | None = None, harness: schema.Harness = REACT, **tasks: Any) -> Domain:
    wanted = {"kind": "miniwob", "train": 3, "eval": 3, "families": PAGES} | tasks
    return Domain(config or Config(), schema.Tasks(**wanted), harness, 0)


@pytest.fixture(scope="module")
def shared(env: LocalEnv) -> Iterator[Domain]:
    """Its browsers serve all tests that need no settings of their own."""
    made = domain()
    yield made
    made.close()


def tried(made: Domain, task: Task, policy: Policy, env: LocalEnv) -> Trajectory:
    return attempt(Job(task, policy, Sampling(), "check", 0), made, env)


def test_training_and_evaluation_share_no_seed_and_no_held_out_page() -> None:
    made = domain(Config(held_out=["click-tab-2"]), train=8, eval=9)
    train, held = list(made.tasks("train")), list(made.tasks("eval"))
    assert {t.family for t in train} == {"click-test", "enter-text"}
    assert {t.family for t in held} == set(PAGES)
    assert not {t.data["seed"] for t in train} & {t.data["seed"] for t in held}
    assert len({t.id for t in train + held}) == 17
    assert [t.id for t in domain(train=3).tasks("train")] == [t.id for t in domain(train=9).tasks("train")][:3]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"kind": "web"}, "tasks.kind: gui has no `web`"),
        ({"path": "x.jsonl"}, "tasks.path is not read by tasks=miniwob"),
        ({"families": ["click-tset"]}, "MiniWoB has no page click-tset"),
    ],
)
def test_a_wrong_task_set_is_an_error_with_a_hint(tasks: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        list(domain(**tasks).tasks("train"))
    assert str(caught.value).startswith(message)


def test_the_teacher_solves_pages_and_doing_nothing_does_not(env: LocalEnv, shared: Domain) -> None:
    made = shared
    for task in made.tasks("train"):
        solved = tried(made, task, made.script(task, seed=0, error_rate=0.0), env)
        assert (solved.outcome, solved.reward, solved.grade["raw"]) == (Outcome.SOLVED, 1.0, 1)
    task = next(made.tasks("train"))
    nothing = tried(made, task, made.noop(task), env)
    assert (nothing.outcome, nothing.reward) == (Outcome.UNSOLVED, 0.0)


def test_native_calls_do_as_well(env: LocalEnv) -> None:
    made = domain(harness=schema.Harness(kind="react", format="tool", max_steps=15))
    task = next(made.tasks("train"))
    assert tried(made, task, made.script(task, seed=0, error_rate=0.0), env).outcome is Outcome.SOLVED
    made.close()


def test_the_same_task_looks_the_same_in_every_attempt(env: LocalEnv, shared: Domain) -> None:
    made = shared
    first, second = (
        [m.content for m in tried(made, task, made.noop(task), env).messages if m.role == "user"]
        for task in [next(made.tasks("eval"))] * 2
    )
    assert first == second
    assert "Goal: " in first[0]


def test_an_erring_teacher_errs_by_its_seed(env: LocalEnv, shared: Domain) -> None:
    made, task = shared, next(domain(families=["click-test-2"], train=1).tasks("train"))
    outcomes = [tried(made, task, made.script(task, seed=s, error_rate=1.0), env).outcome for s in range(4)]
    assert Outcome.UNSOLVED in outcomes
    again = [tried(made, task, made.script(task, seed=s, error_rate=1.0), env).outcome for s in range(4)]
    assert outcomes == again


def test_screenshots_go_to_the_blob_store(env: LocalEnv, tmp_path: Path) -> None:
    made = domain(Config(view="both"))
    made.blobs = Blobs(tmp_path / "blobs")
    task = next(made.tasks("train"))
    tried_once = tried(made, task, made.noop(task), env)
    (shown,) = [image for message in tried_once.messages for image in message.images]
    assert made.blobs.get(shown).startswith(b"\x89PNG")
    made.close()


def test_replies_without_a_call_end_as_the_policys_own_fault(env: LocalEnv, shared: Domain) -> None:
    made = shared
    task = next(made.tasks("train"))
    mute = ScriptedPolicy.replies("mute", [Message("assistant", "hm")])
    assert tried(made, task, mute, env).outcome is Outcome.POLICY_INVALID


def test_the_shop_is_solved_by_its_teacher_alone(env: LocalEnv) -> None:
    made = domain(kind="shop", families=["checkout"], train=1)
    task = next(made.tasks("train"))
    assert tried(made, task, made.script(task, seed=0, error_rate=0.0), env).outcome is Outcome.SOLVED
    for policy in (made.noop(task), *made.wrong(task)):
        assert tried(made, task, policy, env).outcome is Outcome.UNSOLVED, policy.name
    made.close()


def test_a_script_is_not_sent_where_there_is_nothing_to_read() -> None:
    made = domain(Config(view="screenshot"))
    with pytest.raises(ConfigError, match="read text, not pictures"):
        made.script(next(made.tasks("train")), seed=0, error_rate=0.0)


@pytest.mark.parametrize("stage", ["run", "train", "sft"])
def test_a_model_that_reads_text_alone_is_refused_before_attempts_with_pictures_are_made(stage: str) -> None:
    with pytest.raises(ConfigError, match="model=tiny reads text alone"):
        launch("gui", stage, ["domain.view=both"])


@pytest.mark.parametrize("artifact", ["", "[]", "{}", '{"status": null}', '{"status": 5}'])
def test_an_end_state_that_tells_nothing_is_a_failure_of_grading(env: LocalEnv, artifact: str) -> None:
    made = domain()
    with pytest.raises(GradeError):
        made.grade(next(made.tasks("train")), artifact, env)


@pytest.mark.slow
def test_every_page_loads_and_tells_its_goal(env: LocalEnv) -> None:
    made = domain(families=[], train=130)
    dumb = []
    for task in made.tasks("train"):
        seen = tried(made, task, made.noop(task), env)
        if seen.outcome is not Outcome.UNSOLVED or "Goal: " not in seen.messages[0].content:
            dumb.append((task.family, seen.outcome, seen.fault))
    made.close()
    assert dumb == []


@pytest.mark.slow
def test_the_teacher_solves_every_page_that_it_knows(env: LocalEnv) -> None:
    from orchard_cli.recipes.gui.miniwob.teachers import TEACHERS

    made = domain(families=sorted(TEACHERS), train=2 * len(TEACHERS))
    tries = [(t, tried(made, t, made.script(t, seed=0, error_rate=0.0), env)) for t in made.tasks("train")]
    made.close()
    assert len(TEACHERS) >= 40
    assert [(task.id, seen.grade, seen.fault) for task, seen in tries if seen.reward != 1.0] == []


def test_the_choices_for_live_sites_are_those_of_the_published_recipe() -> None:
    made = compose("gui", ["tasks=webvoyager", "tasks.path=x", "sft=web", "rl=web", "harness.max_steps=30"]).config
    assert (made.sft.turns, made.sft.per_task, made.sft.per_family) == ("last", 1, 20)
    assert (made.rl.first_turns, made.rl.format_penalty, made.rl.baseline, made.rl.scale) == (15, 1.0, "group", "std")
    assert compose("gui", []).config.rl.baseline == "length" and compose("gui", []).config.sft.per_task == 0


@pytest.mark.parametrize("word", ["judge=me", "expired=no", "alike=2", "max_words=-1", "reuse=0", "view=video"])
def test_a_setting_that_cannot_be_is_named(word: str) -> None:
    with pytest.raises(ConfigError, match=rf"domain\.{word.partition('=')[0]} "):
        compose("gui", [f"domain.{word}"])
