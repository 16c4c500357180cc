"""Several harnesses in one run: attempts are dealt to them, groups are of one, and eval tells them apart."""

import json
from pathlib import Path

import pytest
from msgspec.json import decode
from tests.small import SMALL_MODEL

from orchard_cli.compose import compose
from orchard_cli.errors import ConfigError
from orchard_cli.launch.local import launch
from orchard_cli.trajectory.reading import read

BOTH = "harness=[mini,full]"
SMALL = [
    "distill.attempts=4",
    "credit=none",
    "sft.unresolved=none",
    *SMALL_MODEL,
    "sft.tokens=4000",
    "harness.max_steps=3",
    "harness.max_tokens=32",
    "rl.steps=1",
    "rl.prompts=4",
    "rl.group.size=4",
    "rl.group.max=4",
    "rl.oversample=1",
    "eval.attempts=4",
]


def systems(file: Path) -> dict[str, list[bool]]:
    """Task → whether each of its attempts has a system prompt: `full` has one here, `mini` has none."""
    found: dict[str, list[bool]] = {}
    for t in read(file):
        found.setdefault(t.task_id, []).append(t.messages[0].role == "system")
    return found


def test_a_list_of_harnesses_is_composed_one_by_one(echo: Path) -> None:
    composed = compose("echo", [BOTH, "harness.max_tokens=77"])
    assert list(composed.config.harnesses) == ["mini", "full"]
    assert [(h.prompt, h.max_tokens) for h in composed.config.harnesses.values()] == [("compact", 77), ("full", 77)]
    assert composed.config.harness == composed.config.harnesses["mini"]
    assert not compose("echo", ["harness=[full]"]).config.harnesses


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["harness=[mini,ful]"], "`harness=ful`: no harness is called `ful`", "did you mean `full`?"),
        (["harness=[mini,mini]"], "`harness=[mini,mini]` names a harness twice", "give each once"),
        ([BOTH, "harness=mini"], "`harness` is given twice", "give it once: harness=[a,b]"),
        (["harness=all"], "`echo` does not say which harnesses are all", "name them: harness=[a,b]"),
        (["harness=[]"], "`harness=`: no harness is called ``", "there are: full, mini, react"),
        (["harnesses={}"], "`harnesses` is not a setting", "did you mean `harness`?"),
    ],
)
def test_a_wrong_list_is_refused(echo: Path, words: list[str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose("echo", words)
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_a_run_with_two_harnesses_from_distill_to_eval(echo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch("echo", "run", [BOTH, *SMALL])
    root = Path("runs/echo/demo")
    seen = systems(root / "distill" / "trajectories.jsonl.zst")
    assert all(len(s) == 4 and len(set(s)) == 2 for s in seen.values())
    groups = [set(s) for file in (root / "rl" / "trajectories").iterdir() for s in systems(file).values()]
    assert all(len(g) == 1 for g in groups) and len(set.union(*groups)) == 2
    report = json.loads((root / "eval" / "report.json").read_text())
    assert {(r["policy"], r["harness"]) for r in report["rows"]} == {
        (policy, harness) for policy in ("base", "sft", "rl") for harness in ("mini", "full")
    }
    assert all(c["harness"] for c in report["comparisons"])
    out = capsys.readouterr().out
    assert "pass@1 by harness" in out and "largest − smallest" in out
    assert decode((root / "distill" / "done.json").read_bytes())["inputs"]["config"]["harnesses"].keys() == {
        "mini",
        "full",
    }
