"""Runs one task's own grader on what an attempt left. A program: it lies in the grading sandbox, with the benchmark.

    run.py ROOT TASK_FOLDER JUDGE_MODEL <artifact.json beside it>    prints the scores as JSON

Exits with 7 if the grader wants a judge and there is none, with 8 if the judge cannot be reached or makes no sense.
Graders catch exceptions and go on without a score; so that a judge that fails never counts as 0, it ends the process.
"""

import inspect
import json
import os
import sys
import time
from pathlib import Path

from claw_eval.graders.llm_judge import LLMJudge
from claw_eval.graders.registry import get_grader
from claw_eval.models.content import TextBlock, ToolResultBlock, ToolUseBlock
from claw_eval.models.message import Message
from claw_eval.models.task import TaskDefinition
from claw_eval.models.trace import ToolDispatch, TraceMessage

TRIES = 3
OURS = "orchard"


class Absent:
    """Nobody is the judge; asking is the end."""

    def __getattr__(self, name):
        os._exit(7)


class Asking:
    """The client of a judge, in place of the SDK's: counts calls, and ends the process where none succeeds."""

    def __init__(self, create):
        self.chat = self.completions = self
        self._create, self.calls = create, 0

    def create(self, **wanted):
        self.calls += 1
        for number in range(TRIES):
            try:
                return self._create(**wanted)
            except Exception as error:  # noqa: BLE001 - whatever it is, there is no verdict
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                time.sleep(2**number)
        os._exit(8)


class Judge(LLMJudge):
    """The benchmark's own, whose answers that cannot be read are asked for again by it, but not for ever."""

    def __init__(self, model):
        super().__init__(model, "none", os.environ["ORCHARD_MODEL_URL"])
        self.client = Asking(self.client.chat.completions.create)


def spoken(left):
    """The conversation as the benchmark keeps it: calls and results as blocks, the answer as the last words."""
    said = [Message(role="user", content=[TextBlock(text=left["prompt"])])]
    answer = ""
    for made in left["made"]:
        if made["name"] == "done":
            answer = str(made["arguments"].get("answer", "")) or made["said"]
            continue
        before = [TextBlock(text=made["said"])] if made["said"] else []
        use = ToolUseBlock(id=made["id"], name=made["name"], input=made["arguments"])
        text = TextBlock(text=json.dumps(made["body"], ensure_ascii=False))
        result = ToolResultBlock(tool_use_id=made["id"], content=[text], is_error=made["status"] >= 400)
        said += [Message(role="assistant", content=[*before, use]), Message(role="user", content=[result])]
    said.append(Message(role="assistant", content=[TextBlock(text=answer)]))
    return [TraceMessage(trace_id=OURS, message=message) for message in said]


def called(left):
    return [
        ToolDispatch(
            trace_id=OURS,
            tool_use_id=made["id"],
            tool_name=made["name"],
            endpoint_url=made["url"],
            request_body=made["arguments"],
            response_status=made["status"],
            response_body=made["body"],
            latency_ms=made.get("ms", 0.0),
        )
        for made in left["made"]
        if made["name"] != "done"
    ]


def main():
    root, folder, model = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    left = json.loads(Path(__file__).with_name("artifact.json").read_text())
    task = TaskDefinition.from_yaml(root / folder / "task.yaml")
    grader = get_grader(task.task_id, tasks_dir=root / "tasks", task_dir=root / folder)
    judge = Judge(model) if model else Absent()
    takes = inspect.signature(grader.grade).parameters
    more = {"audit_data": left["audit"], "judge": judge, "media_events": [], "env_snapshot": {}}
    scores = grader.grade(spoken(left), called(left), task, **{k: v for k, v in more.items() if k in takes})
    calls = judge.client.calls if model else 0
    print(json.dumps(scores.model_dump() | {"judge_calls": calls}, allow_nan=False), flush=True)


if __name__ == "__main__":
    main()
