"""Whether Claw-Eval's tasks score here as in its own runner: the same calls, the same answer, the same judge.

    python bench/claw_eval.py [COPY] [--only T106,T034] [--json]

COPY is a copy of its repository, without which there is nothing to do; this Python must have what its runner imports
(`orchard-cli[claw-eval]` and httpx). A model of a few lines, on this machine, calls up to three tools of each task with
made-up arguments and then says one sentence; as judge it says 0.7. Both runners talk to it. Ends with 1 if any score
differs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from orchard_cli.recipes.claw import Config, Domain

from orchard_cli import schema
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.harness.calls import CALLS
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

SAYS = "I looked at everything: boss@company.com needs a reply, the rest is FYI or spam; job_001 failed; 1234 in total."
MADE_UP: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
SETTINGS = """\
model: {{api_key: x, base_url: "{url}", model_id: model, context_window: 100000}}
judge: {{api_key: x, base_url: "{url}", model_id: judge, enabled: true}}
defaults: {{trace_dir: "{traces}", tasks_dir: tasks}}
"""


def calls(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """(name, arguments) of the first three tools."""
    made = []
    for tool in [tool["function"] for tool in tools][:3]:
        schema = tool["parameters"]
        kinds = {name: schema["properties"].get(name, {}).get("type") for name in schema.get("required", [])}
        made.append((tool["name"], {name: MADE_UP.get(kind, "x1") for name, kind in kinds.items()}))
    return made


class Model(BaseHTTPRequestHandler):
    """Acts or judges, by the name it is called by."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said: dict[str, Any] = {"role": "assistant", "content": '{"score": 0.7, "reasoning": "so"}'}
        if asked["model"] == "model":
            turn, planned = sum(m["role"] == "assistant" for m in asked["messages"]), calls(asked.get("tools", []))
            said["content"] = SAYS
            if turn < len(planned):
                name, arguments = planned[turn]
                call = {"name": name, "arguments": json.dumps(arguments)}
                said |= {"content": None, "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if said.get("tool_calls") else "stop"}
        whole = {"id": "1", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": [choice]}
        body = json.dumps(whole | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def ours(domain: Domain, task: Task, env: LocalEnv) -> float | str:
    say = CALLS["tool"].encode
    made = [ToolCall(f"call_{i}", *call) for i, call in enumerate(calls(task.data["specs"]))]
    turns = [say([call]) for call in (*made, ToolCall("call_9", "done", {"answer": SAYS}))]
    done = attempt(Job(task, ScriptedPolicy.replies("fixed", turns), Sampling(), "eval", 0), domain, env)
    return done.reward if done.reward is not None else str(done.fault)


def theirs(root: Path, task: Task, settings: Path) -> float | str:
    argv = [sys.executable, "-m", "claw_eval.cli", "run", "--task", task.data["folder"], "--config", str(settings)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(argv, cwd=root, env=variables, capture_output=True, text=True)
    said = re.search(r"task_score:\s+([0-9.]+)", done.stdout)
    return float(said[1]) if said else (done.stdout + done.stderr)[-300:]


def compare(root: Path, only: list[str], url: str, settings: Path) -> list[tuple[str, float | str, float | str]]:
    asks = Config(judge_model="judge", judge_base_url=url, judge_api_key_env="")
    harness = schema.Harness(kind="react", format="tool", prompt="full", max_steps=30, observation_chars=10**6)
    domain = Domain(asks, schema.Tasks(kind="claw_eval", path=str(root)), harness, 0)
    found = []
    with LocalEnv() as env:
        for task in domain.tasks("eval"):
            if not only or any(word in task.id for word in only):
                found.append((task.id, ours(domain, task, env), theirs(root, task, settings)))
                print(*found[-1], file=sys.stderr, flush=True)
    return found


def same(one: float | str, other: float | str) -> bool:
    """Theirs is printed with two digits."""
    return isinstance(one, float) and isinstance(other, float) and abs(one - other) < 0.0051


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copy", type=Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.copy is None:
        print("nothing to compare with: name a copy of Claw-Eval's repository")
        return
    http = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    with tempfile.TemporaryDirectory() as place:
        settings = Path(place, "config.yaml")
        settings.write_text(SETTINGS.format(url=url, traces=place))
        only = [word for word in options.only.split(",") if word]
        found = compare(options.copy.resolve(), only, url, settings)
    differ = [row for row in found if not same(*row[1:])]
    result = {"tasks": len(found), "same": len(found) - len(differ), "differ": differ}
    print(
        json.dumps(result, indent=1) if options.json else f"{result['same']} of {result['tasks']} tasks score the same"
    )
    sys.exit(bool(differ) or not found)


if __name__ == "__main__":
    main()
