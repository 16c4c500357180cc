"""Personal-assistant agents: act in someone's mail, calendar, files, contacts, money and notes through tools.

Task sets: `everyday` and `all` are drawn from families in YAML, `file` reads your own; `claw_bench`, `claw_eval`,
`qwenclaw`, `workplace` and `tau` read those benchmarks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.harness import Harness
from orchard_cli.policy.policy import Policy
from orchard_cli.task import Split, Task

from .assistant import Assistant
from .loaders.calls import Calls
from .loaders.served import Served
from .loaders.workspace import Workspace
from .tasks.sets import TaskSet

HARNESSES = ("assistant", "mcp", "skills")  # what `harness=all` stands for


@dataclass
class Config(schema.Domain):
    grader_timeout_s: float = schema.setting(60.0, above=0)
    """Seconds for a grader that is code of a task; declared checks need none."""
    synth: int = schema.setting(5, least=1)
    """Families that `claw synth` is to make; `n=5` says the same there."""
    judge_model: str = ""
    """Model that judges where a benchmark's own grader asks one (claw_eval)."""
    judge_base_url: str = "https://api.openai.com/v1"
    """Endpoint of the judge, with /v1."""
    judge_api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the judge's key; empty: none is sent."""
    against: list[str] = field(default_factory=list)
    """Benchmarks that made families must not repeat, as KIND:PATH, such as claw_bench:FOLDER."""


class Domain:
    """Thread-safe: every attempt has a world of its own."""

    name = "claw"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self._tasks = TaskSet(tasks, seed)
        self._assistant = Assistant(harness, config.grader_timeout_s)
        self._calls = Calls(harness)
        self._workspace = Workspace(harness, config.grader_timeout_s)
        self._served = Served(harness, config.grader_timeout_s, _judge(config))

    @property
    def problems(self) -> Sequence[object]:
        """Bad pages or rows of the task file; good ones are used all the same."""
        return self._tasks.problems

    def tasks(self, split: Split) -> Iterator[Task]:
        return self._tasks.of(split)

    def harness(self, task: Task) -> Harness:
        return self._of(task).harness(task)

    def spec(self, task: Task) -> Spec:
        return self._of(task).spec(task)

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        self._of(task).prepare(task, sandbox)

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return self._of(task).export(task, sandbox)

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        return self._of(task).grade(task, artifact, env)

    def script(self, task: Task, *, seed: int, error_rate: float) -> Policy:
        return self._of(task).script(task, seed=seed, error_rate=error_rate)

    def noop(self, task: Task) -> Policy:
        return self._of(task).noop(task)

    def wrong(self, task: Task) -> Sequence[Policy]:
        return self._of(task).wrong(task)

    def _of(self, task: Task) -> Assistant | Workspace | Calls | Served:
        if "world" in task.data:
            return self._assistant
        if "services" in task.data:
            return self._served
        return self._calls if "tools" in task.data else self._workspace


def _judge(config: Config) -> tuple[ModelEndpoint, str] | None:
    if not config.judge_model:
        return None
    return ModelEndpoint(config.judge_base_url, config.judge_api_key_env), config.judge_model
