"""Claw-Eval, QwenClawBench, workplace and tau rows: played in a sandbox where they can be, named where they cannot."""

import json
from pathlib import Path

import pytest
from orchard_cli.recipes.claw import Config, Domain

from orchard_cli import schema
from orchard_cli.env.sandbox import Env
from orchard_cli.errors import DataError
from orchard_cli.harness.calls import CALLS
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.trajectory import Message, ToolCall, Trajectory

DONE = ("done", {"answer": "done"})


def _domain(kind: str, path: Path, max_steps: int = 8) -> Domain:
    tasks = schema.Tasks(kind=kind, path=str(path))
    return Domain(Config(), tasks, schema.Harness(kind="react", format="calls", max_steps=max_steps), 0)


def _run(domain: Domain, env: Env, policy: Policy | None = None) -> Trajectory:
    (task,) = domain.tasks("eval")
    oracle = domain.script(task, seed=0, error_rate=0.0)
    return attempt(Job(task, policy or oracle, Sampling(), "check", 0), domain, env)


def _calls(*calls: tuple[str, dict[str, object]]) -> ScriptedPolicy:
    encoded = [CALLS["calls"].encode([ToolCall("c", name, dict(arguments))]) for name, arguments in calls]
    return ScriptedPolicy.replies("s", encoded)


TOOL = {
    "type": "function",
    "name": "email_send_email",
    "parameters": {"type": "object", "properties": {"recipient": {"type": "string"}}, "required": ["recipient"]},
}
ROW = {
    "id": 7,
    "category": "email",
    "ground_truth": [{"name": "email_send_email", "arguments": '{"recipient": "Ana@x.test"}'}],
    "responses_create_params": {"input": [{"role": "user", "content": "Mail Ana."}], "tools": [TOOL]},
}


def test_a_workplace_row_is_solved_by_its_calls_in_any_case_and_by_no_others(tmp_path: Path, env: Env) -> None:
    (tmp_path / "w.jsonl").write_text(json.dumps(ROW))
    domain = _domain("workplace", tmp_path / "w.jsonl")
    assert _run(domain, env).reward == 1.0
    (task,) = domain.tasks("eval")
    assert _run(domain, env, domain.noop(task)).reward == 0.0
    lower = _calls(("email_send_email", {"recipient": "ana@x.test"}), DONE)
    assert _run(domain, env, lower).outcome is Outcome.SOLVED
    send = ("email_send_email", {"recipient": "eve@x.test"})
    assert _run(domain, env, _calls(send, DONE)).reward == 0.0
    twice = ("email_send_email", {"recipient": "ana@x.test"})
    assert _run(domain, env, _calls(twice, twice, DONE)).reward == 0.0


def test_a_wrong_call_is_answered_and_not_recorded(tmp_path: Path, env: Env) -> None:
    (tmp_path / "w.jsonl").write_text(json.dumps(ROW))
    made = _run(
        _domain("workplace", tmp_path / "w.jsonl"),
        env,
        _calls(
            ("email_send", {}),
            ("email_send_email", {"to": "x"}),
            ("email_send_email", {"recipient": "ana@x.test"}),
            DONE,
        ),
    )
    assert made.reward == 1.0
    assert [m.content.split(":")[0] for m in made.messages if m.role == "user"][1:3] == [
        "unknown_tool",
        "bad_arguments",
    ]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", ""),
        ("[]", ""),
        ("{}", "responses_create_params"),
        (json.dumps(ROW | {"ground_truth": None}), "ground_truth"),
        (json.dumps(ROW | {"ground_truth": [{"name": "x", "arguments": "{"}]}), "ground_truth[0].arguments"),
        (json.dumps(ROW | {"responses_create_params": {"input": "hi"}}), "responses_create_params.tools"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field_and_good_ones_are_used(tmp_path: Path, line: str, field: str) -> None:
    (tmp_path / "w.jsonl").write_text(f"{line}\n{json.dumps(ROW)}\n")
    domain = _domain("workplace", tmp_path / "w.jsonl")
    assert [t.id for t in domain.tasks("eval")] == ["workplace/7"]
    (problem,) = domain.problems
    assert (problem.number, problem.field) == (1, field)  # type: ignore[attr-defined]


def test_tau_rows_are_read_in_both_dialects_and_those_for_judges_are_named(tmp_path: Path, env: Env) -> None:
    action = {"action_id": "1", "name": "create_task", "arguments": {"title": "Meeting"}}
    user = {"name": "toggle", "arguments": {}, "requestor": "user"}
    rows = [
        {"id": "a", "ticket": "Make a task.", "evaluation_criteria": {"actions": [action, user]}},
        {"id": "b", "instruction": "Do it.", "actions": [{"name": "create_task", "kwargs": {"title": "x"}}]},
        {"id": "c", "ticket": "Be nice.", "evaluation_criteria": {"nl_assertions": ["was nice"]}},
    ]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    domain = _domain("tau", tmp_path / "t.json")
    first, second = domain.tasks("eval")
    assert [t.id for t in (first, second)] == ["tau/a", "tau/b"]
    assert [p.field for p in domain.problems] == ["evaluation_criteria.actions"]  # type: ignore[attr-defined]
    for task in (first, second):
        oracle = domain.script(task, seed=0, error_rate=0.0)
        assert attempt(Job(task, oracle, Sampling(), "check", 0), domain, env).reward == 1.0


PAGE = """\
---
id: task_1
category: files
grading_type: hybrid
workspace_files:
  - path: notes/a.txt
    content: |
      ---
      three
---
## Prompt

Write the word of notes/a.txt into out.txt.

## Automated Checks

```python
FENCE = '''
 ```
'''
def grade(transcript: list, workspace_path: str) -> dict:
    import pathlib
    out = pathlib.Path(workspace_path, "out.txt")
    said = any(b.get("type") == "text" for line in transcript for b in line["message"]["content"])
    return {"there": float(out.exists() and "three" in out.read_text()), "said": float(said)}
```

## LLM Judge Rubric

Be strict.
"""


def _says(command: str) -> ScriptedPolicy:
    done = "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"
    return ScriptedPolicy.replies("s", [Message("assistant", f"```bash\n{command}\n```"), Message("assistant", done)])


def test_a_markdown_task_is_judged_by_its_function_which_reads_workspace_and_transcript(
    tmp_path: Path, env: Env
) -> None:
    (tmp_path / "task_1.md").write_text(PAGE)
    domain = _domain("qwenclaw", tmp_path)
    solved = _run(domain, env, _says("tail -n 1 notes/a.txt > out.txt"))
    assert (solved.outcome, solved.grade["scores"]) == (Outcome.SOLVED, {"there": 1.0, "said": 1.0})
    assert solved.grade["skipped"] == ["llm_judge"]
    assert _run(domain, env, _says("true")).reward == 0.5


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("---\nid", "id"), ""),
        (("id: task_1\n", ""), "id"),
        (("## Prompt", "## Promt"), "## Prompt"),
        (("```python", "```py"), "## Automated Checks"),
        (("path: notes/a.txt", "path: ../a.txt"), "workspace_files[0]"),
        (
            ("- path: notes/a.txt\n    content: |\n      ---\n      three", "- source: /etc/passwd"),
            "workspace_files[0].source",
        ),
    ],
)
def test_a_faulty_markdown_task_is_named_by_its_part(tmp_path: Path, change: tuple[str, str], field: str) -> None:
    (tmp_path / "task_1.md").write_text(PAGE.replace(*change, 1))
    domain = _domain("qwenclaw", tmp_path)
    assert not list(domain.tasks("eval"))
    (problem,) = domain.problems
    assert problem.field == field  # type: ignore[attr-defined]


def test_a_path_without_tasks_is_an_error(tmp_path: Path) -> None:
    for kind in ("claw_eval", "qwenclaw", "workplace", "tau"):
        with pytest.raises(DataError):
            list(_domain(kind, tmp_path / "none").tasks("eval"))
