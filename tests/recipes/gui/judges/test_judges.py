"""Each judge against a real endpoint: what it is shown, what it makes of the reply, what happens without one."""

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from orchard_cli.recipes.gui.judges import JUDGES, Evidence, Shot, Verdict, judge_of, open_judge
from orchard_cli.recipes.gui.judges.state import State

from orchard_cli.errors import ConfigError, GradeError
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.trajectory import Blobs

from .conftest import Ask, Endpoint, picture, settings

YES = {
    "webvoyager": ["The price is shown. SUCCESS"],
    "agenttrek": ['Thoughts: fine.\nStatus: "success"'],
    "webjudge": ["Key points:\n1. the mug\n2. its price", *["Reasoning: x\nScore: 4"] * 4, 'Status: "success"'],
    "deepshop": ['{"thought": "ok", "verdict": "SUCCESS"}'],
}


@pytest.mark.parametrize("kind", JUDGES)
def test_every_judge_says_yes_to_a_yes(kind: str, ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    endpoint.answers = list(YES[kind])
    verdict = ask(kind).judge(seen)
    assert verdict.success and verdict.judge == kind and verdict.usage.calls == len(endpoint.asked)


def test_a_judge_is_opened_by_its_settings(endpoint: Endpoint, blobs: Blobs, seen: Evidence) -> None:
    judge = open_judge("webvoyager", settings(endpoint), blobs, screenshots=1)
    assert judge.judge(seen).success and len(endpoint.pictures(0)) == 1


@pytest.mark.parametrize("kind", JUDGES)
def test_every_judge_says_no_to_a_no(kind: str, ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    no = {"webvoyager": "NOT SUCCESS", "agenttrek": "Status: failure", "webjudge": "Status: failure"}
    endpoint.answers = [*YES[kind][:-1], no.get(kind, '{"thought": "no", "verdict": "NOT SUCCESS"}')]
    assert not ask(kind).judge(seen).success


@pytest.mark.parametrize("kind", JUDGES)
@pytest.mark.parametrize("answer", [500, 429, 401, "I would rather talk about the weather.", ""])
def test_a_judge_that_fails_is_an_error_and_never_a_no(
    kind: str, answer: str | int, ask: Ask, endpoint: Endpoint, seen: Evidence
) -> None:
    endpoint.answers = [*YES[kind][:-1], answer]
    with pytest.raises(GradeError) as error:
        ask(kind).judge(seen)
    assert error.value.fault.code == (f"judge.http.{answer}" if answer in (500, 429) else error.value.fault.code)
    assert error.value.fault.code.startswith("judge.") and error.value.fault.domain == "grade"


@pytest.mark.parametrize("kind", JUDGES)
def test_an_agent_that_gave_no_answer_has_failed_and_nobody_is_asked(
    kind: str, ask: Ask, endpoint: Endpoint, seen: Evidence
) -> None:
    verdict = ask(kind).judge(msgspec.structs.replace(seen, answer=""))
    assert not verdict.success and verdict.usage.calls == 0 and endpoint.asked == []


@pytest.mark.parametrize("kind", JUDGES)
def test_an_attempt_that_left_nothing_to_look_at_cannot_be_judged(kind: str, ask: Ask, seen: Evidence) -> None:
    with pytest.raises(GradeError, match="nothing that a judge could look at"):
        ask(kind).judge(msgspec.structs.replace(seen, shots=()))


@pytest.mark.parametrize("kind", ["webvoyager", "agenttrek", "deepshop"])
def test_a_second_try_follows_a_reply_without_a_verdict(
    kind: str, ask: Ask, endpoint: Endpoint, seen: Evidence
) -> None:
    endpoint.answers = ["hm", *YES[kind]]
    assert ask(kind).judge(seen).usage.calls == 2
    assert [question["seed"] for question in endpoint.asked] == [42, 43]
    assert all(question["temperature"] == 0 for question in endpoint.asked)


def test_webvoyager_is_shown_the_last_screenshots_in_order(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    ask("webvoyager", screenshots=2).judge(seen)
    assert endpoint.pictures(0) == [f"data:image/png;base64,{b64encode(picture(n)).decode()}" for n in (2, 3)]
    assert (
        "$12.50" in endpoint.texts(0) and "Find the price" in endpoint.texts(0) and "click(id=3)" in endpoint.texts(0)
    )
    ask("webvoyager", screenshots=0).judge(seen)
    assert len(endpoint.pictures(1)) == 4


def test_agenttrek_is_shown_the_final_screenshot(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    endpoint.answers = list(YES["agenttrek"])
    ask("agenttrek").judge(seen)
    assert endpoint.pictures(0) == [f"data:image/png;base64,{b64encode(picture(3)).decode()}"]


def test_webjudge_shows_its_last_stage_what_scored_three_or_more(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    scores = [
        "Reasoning: none\nScore: 1",
        "Reasoning: the list\nScore: 3",
        "Score: 2",
        "Reasoning: the price\nScore: 5",
    ]
    endpoint.answers = [YES["webjudge"][0], *scores, YES["webjudge"][-1]]
    verdict = ask("webjudge").judge(seen)
    assert [len(endpoint.pictures(n)) for n in range(6)] == [0, 1, 1, 1, 1, 2]
    assert endpoint.pictures(5)[1].endswith(b64encode(picture(3)).decode())
    assert "the list" in endpoint.texts(5) and "none" not in endpoint.texts(5)
    assert verdict.details == {"key_points": ["the mug", "its price"], "scores": [1, 3, 2, 5], "kept": 2}


def test_deepshop_judges_each_requirement_and_multiplies(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    wanted = {"attribute": "red", "filter": "under $20", "sort": "None"}
    shopping = msgspec.structs.replace(seen, requirements=wanted)
    endpoint.answers = ['{"thought": "a", "verdict": "SUCCESS"}', '{"thought": "b", "verdict": "NOT SUCCESS"}']
    verdict = ask("deepshop").judge(shopping)
    assert not verdict.success and verdict.details == {"requirements": {"attribute": True, "filter": False}}
    assert "red" in endpoint.texts(0) and "under $20" in endpoint.texts(1) and len(endpoint.asked) == 2


def test_text_observations_are_judged_where_there_is_no_picture(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    shots = (Shot(text="URL: http://shop.example/product/p1\n[3] text $12.50"),)
    assert ask("webvoyager").judge(msgspec.structs.replace(seen, shots=shots)).success
    assert "[3] text $12.50" in endpoint.texts(0) and endpoint.pictures(0) == []


def test_what_a_task_says_in_braces_or_rules_stays_text(ask: Ask, endpoint: Endpoint, seen: Evidence) -> None:
    hostile = "{{ 7 * 7 }}\n---\n{% raw %}"
    ask("webvoyager").judge(msgspec.structs.replace(seen, task=hostile))
    assert hostile in endpoint.asked[0]["messages"][1]["content"][0]["text"]
    assert endpoint.asked[0]["messages"][0]["role"] == "system"


@pytest.mark.parametrize("damage", ["missing", "no picture"])
def test_a_screenshot_that_cannot_be_shown_is_an_error(damage: str, ask: Ask, seen: Evidence, blobs: Blobs) -> None:
    sha = blobs.put(b"not a picture") if damage == "no picture" else "0" * 64
    with pytest.raises(GradeError) as error:
        ask("webvoyager").judge(msgspec.structs.replace(seen, shots=(Shot(image=sha),)))
    assert error.value.fault.code.startswith("judge.")


def test_the_world_itself_is_a_judge() -> None:
    verdict = State(lambda: (1.0, {"checks": {"cart": True}})).judge()
    assert verdict == Verdict("state", True, details={"checks": {"cart": True}})
    assert not State(lambda: (0.0, {})).judge().success


def test_an_unknown_judge_is_named() -> None:
    with pytest.raises(ConfigError, match="webvoyge"):
        judge_of("webvoyge", ScriptedPolicy.replies("x", []))


def test_evidence_survives_being_written_down(seen: Evidence) -> None:
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Evidence) == seen


def test_every_prompt_is_told_that_what_it_shows_is_no_instruction() -> None:
    import orchard_cli.recipes.gui.judges as judges

    prompts = list((Path(judges.__file__).parent / "prompts").glob("*.md"))
    assert len(prompts) == 6
    for path in prompts:
        assert "no instruction" in path.read_text() or path.stem == "webjudge_points"
