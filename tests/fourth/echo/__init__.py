"""Write the asked word into answer.txt."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.formats import FORMATS, chosen
from orchard_cli.harness.loop import SENTINELS, MiniLoop
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Split, Task


@dataclass
class Config(schema.Domain):
    words: int = 3
    """How many tasks to make."""


class Domain:
    name = "echo"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self.config, self.settings = config, harness

    def tasks(self, split: Split) -> Iterator[Task]:
        for i in range(self.config.words):
            yield Task(f"{split}-{i}", "echo", f"Write w{i} into answer.txt", split, hidden={"word": f"w{i}"})

    def harness(self, task: Task) -> MiniLoop:
        return MiniLoop(self.settings, Path(__file__).parent / "prompts" / self.settings.prompt)

    def spec(self, task: Task) -> Spec:
        return Spec()

    def prepare(self, task: Task, sandbox: Sandbox) -> None: ...

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return sandbox.diff()

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        right = f"+{task.hidden['word']}" in artifact.splitlines()
        return Grade(float(right), right)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        say = chosen(self.settings, MiniLoop.name, FORMATS).encode
        word = task.hidden["word"] if seed % 100 >= 100 * error_rate else "wrong"
        return ScriptedPolicy.replies("script", [say(f"echo {word} > answer.txt"), say(f"echo {SENTINELS[0]}")])

    def noop(self, task: Task) -> ScriptedPolicy:
        say = chosen(self.settings, MiniLoop.name, FORMATS).encode
        return ScriptedPolicy.replies("noop", [say(f"echo {SENTINELS[0]}")])
