"""Say what colour each picture has."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.formats import chosen
from orchard_cli.harness.react import ReactLoop
from orchard_cli.harness.tools import ToolResult
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Split, Task
from orchard_cli.trajectory import Blobs, ToolCall

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 60, 220)}


@dataclass
class Config(schema.Domain):
    tasks: int = 12
    """How many tasks to make."""


class Swatches:
    parameters = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    specs: tuple[dict[str, Any], ...] = ({"type": "function", "function": {"name": "say", "parameters": parameters}},)

    def __init__(self, task: Task, sandbox: Sandbox, blobs: Blobs):
        self.shas = [blobs.put(bytes.fromhex(picture)) for picture in task.data["pictures"]]
        self.sandbox, self.said = sandbox, []

    def open(self) -> ToolResult:
        return self.observe()

    def call(self, call: ToolCall) -> ToolResult:
        self.said.append(str(call.arguments.get("colour")))
        self.sandbox.write("said", " ".join(self.said).encode())
        return ToolResult(stop=len(self.said) == len(self.shas))

    def observe(self) -> ToolResult:
        return ToolResult(f"picture {len(self.said)}", images=(self.shas[len(self.said)],))

    def close(self) -> None: ...


class Domain:
    name = "swatch"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self.config, self.settings, self.seed = config, harness, seed
        self.blobs: Blobs | None = None

    def tasks(self, split: Split) -> Iterator[Task]:
        for i in range(self.config.tasks):
            rng = random.Random(f"{self.seed}/{split}/{i}")
            colours = [rng.choice(list(COLOURS)) for _ in range(2)]
            pictures = [_png(tuple(c + rng.randint(-20, 20) for c in COLOURS[name])) for name in colours]
            yield Task(
                f"{split}-{i}", "swatch", "Which colour?", split, data={"colours": colours, "pictures": pictures}
            )

    def harness(self, task: Task) -> ReactLoop:
        prompts = Path(__file__).parent / "prompts" / self.settings.prompt
        return ReactLoop(self.settings, prompts, lambda task, sandbox: Swatches(task, sandbox, self.blobs))

    def spec(self, task: Task) -> Spec:
        return Spec()

    def prepare(self, task: Task, sandbox: Sandbox) -> None: ...

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return sandbox.read("said").decode()

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        right = artifact == " ".join(task.data["colours"])
        return Grade(float(right), right)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        return self._say("script", task.data["colours"])

    def noop(self, task: Task) -> ScriptedPolicy:
        return self._say("noop", ["none", "none"])

    def _say(self, name: str, colours: list[str]) -> ScriptedPolicy:
        turns = [[ToolCall("call_0", "say", {"colour": colour})] for colour in colours]
        return ScriptedPolicy.replies(name, list(map(chosen(self.settings, ReactLoop.name, CALLS).encode, turns)))


def _png(colour: tuple[int, ...]) -> str:
    out = BytesIO()
    Image.new("RGB", (64, 64), tuple(max(0, min(255, c)) for c in colour)).save(out, "PNG")
    return out.getvalue().hex()
