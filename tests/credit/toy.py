"""A counter as a whole domain: the task is to make the file `n` hold 3, by `add`; `look` changes nothing."""

import threading
from collections.abc import Callable

from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import ExecResult, Spec
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.harness.harness import Transcript
from orchard_cli.outcome import Outcome
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Executed, Message, Step, Trajectory, Usage

TASK = Task("t", "toy", "make it 3")


class Memory:
    """A sandbox whose only file is a number."""

    workdir = "/"

    def __init__(self, env: "MemoryEnv", n: int = 0):
        self.env, self.n, self.id, self.closed = env, n, str(len(env.made)), False
        self.alive = 0  # processes
        env.made.append(self)

    def exec(self, command, *, timeout_s=60.0, merge=False):
        self.env.commands.append(command)
        if command == "crash":
            raise SandboxError("gone", code="agent_unreachable")
        self.n += command in ("add", "add and serve")
        self.alive += command == "add and serve"
        good = command in ("add", "add and serve", "look", "submit")
        return ExecResult(0 if good else 1, "exited", b"", b"", left_running=(7,) * self.alive)

    def diff(self):
        return str(self.n)

    def fork(self, *, processes=False):
        if processes and not self.env.copies_processes:
            raise SandboxError("not here", code="client.unsupported")
        fork = Memory(self.env, self.n)
        fork.alive = self.alive if processes else 0
        return fork

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class MemoryEnv:
    def __init__(self, copies_processes=False):
        self.copies_processes = copies_processes
        self.made: list[Memory] = []
        self.commands: list[str] = []

    def open(self, spec):
        return Memory(self)

    def describe(self):
        return {}

    def close(self):
        pass


class ToyHarness:
    name = "toy"

    def run(self, task, sandbox, policy, sampling, *, resume=None):
        messages = list(resume.messages) if resume else [Message("user", task.prompt)]
        steps = list(resume.steps) if resume else []
        usage = Usage()
        while len(steps) < 8:
            reply = policy.reply(messages, sampling=sampling)
            usage += reply.usage
            messages.append(reply.message)
            result = sandbox.exec(reply.message.content)
            steps.append(Step(len(messages) - 1, reply.message.content, executed=Executed(result.exit_code)))
            if reply.message.content == "submit":
                return Transcript(tuple(messages), tuple(steps), (), usage, "submitted")
            messages.append(Message("user", "ok"))
        return Transcript(tuple(messages), tuple(steps), (), usage, "step_limit")


class Toy:
    name = "toy"

    def __init__(self, broken_grades: int = 0):
        self.broken = broken_grades
        self.lock = threading.Lock()

    def harness(self, task):
        return ToyHarness()

    def spec(self, task):
        return Spec()

    def prepare(self, task, sandbox):
        pass

    def export(self, task, sandbox):
        return sandbox.diff()

    def grade(self, task, artifact, env):
        with self.lock:
            self.broken -= 1
            if self.broken >= 0:
                raise GradeError("no verdict", code="timeout")
        return Grade(float(artifact == "3"), artifact == "3")


def attempt(*actions: str, exits: dict[int, int] | None = None) -> Trajectory:
    """An unresolved attempt that ran these commands."""
    messages, steps = [Message("user", TASK.prompt)], []
    for i, action in enumerate(actions):
        messages += [Message("assistant", action), Message("user", f"saw {action}")]
        steps.append(Step(len(messages) - 2, action, len(messages) - 1, Executed((exits or {}).get(i, 0))))
    return Trajectory(
        "a", "t", "toy", "p", "toy", tuple(messages), tuple(steps), Outcome.UNSOLVED, "submitted", reward=0.0
    )


def adds_until(total: int) -> Callable[[int], ScriptedPolicy]:
    """Finishes by adding until `total` adds were made in all, then submits."""

    def respond(messages):
        done = sum(m.role == "assistant" and m.content == "add" for m in messages)
        return Message("assistant", "add" if done < total else "submit")

    return lambda seed: ScriptedPolicy("adds", respond)
