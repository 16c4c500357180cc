"""The loop: what ends an attempt, what the policy sees, and that a faulty reply stays in the history."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.formats import FORMATS
from orchard_cli.harness.harness import Transcript
from orchard_cli.harness.loop import SENTINELS, MiniLoop
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, Usage

PROMPTS = Path(__file__).parents[1] / "fourth" / "echo" / "prompts" / "compact"
TASK = Task("t", "echo", "Do it")
SAY = FORMATS["fence"].encode
SUBMIT = SAY(f"echo {SENTINELS[0]}")


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    opened = open_env(schema.Env(isolation="process"))
    yield opened
    opened.close()


@pytest.fixture
def sandbox(env: Env) -> Iterator[Sandbox]:
    with env.open(Spec()) as opened:
        yield opened


def run(sandbox: Sandbox, replies: Sequence[Message], **settings: object) -> Transcript:
    loop = MiniLoop(schema.Harness(**settings), PROMPTS)
    return loop.run(TASK, sandbox, ScriptedPolicy.replies("script", replies), Sampling())


def test_a_sentinel_on_the_first_line_of_a_successful_command_submits(sandbox: Sandbox) -> None:
    done = run(sandbox, [SAY("echo one"), SUBMIT])
    assert (done.stop, len(done.steps), done.usage.calls) == ("submitted", 2, 2)
    assert [m.role for m in done.messages] == ["user", "assistant", "user", "assistant"]
    assert done.messages[2].content.strip() == "one"
    assert done.steps[1].observation == -1


@pytest.mark.parametrize("command", [f"echo x; echo {SENTINELS[0]}", f"echo {SENTINELS[0]}; false", "true"])
def test_anything_else_does_not_submit(sandbox: Sandbox, command: str) -> None:
    assert run(sandbox, [SAY(command)], max_steps=1).stop == "step_limit"


def test_limits_end_the_attempt(sandbox: Sandbox) -> None:
    assert run(sandbox, [SAY("true")], max_steps=3).stop == "step_limit"
    assert run(sandbox, [SAY("sleep 0.2")], max_time_s=0.1).stop == "time_limit"


def test_faulty_replies_are_answered_and_kept_and_end_it_when_they_repeat(sandbox: Sandbox) -> None:
    faulty = Message("assistant", "I would rather talk.")
    done = run(sandbox, [faulty], format_errors=2)
    assert (done.stop, len(done.steps)) == ("format_errors", 2)
    assert "found 0 commands" in done.messages[2].content
    assert run(sandbox, [faulty, SAY("true"), faulty, SUBMIT], format_errors=2).stop == "submitted"


def test_long_output_is_cut_to_head_and_tail(sandbox: Sandbox) -> None:
    done = run(sandbox, [SAY("seq 1 2000"), SUBMIT], observation_chars=100)
    seen = done.messages[2].content
    assert seen.startswith("1\n2\n") and seen.endswith("1999\n2000\n") and len(seen) < 150


def test_stderr_and_a_failing_command_are_seen(sandbox: Sandbox) -> None:
    done = run(sandbox, [SAY("ls /nowhere"), SUBMIT])
    assert "No such file" in done.messages[2].content
    executed = done.steps[0].executed
    assert executed and executed.exit_code == 2


def test_a_timeout_keeps_the_output_so_far_and_goes_on(sandbox: Sandbox) -> None:
    done = run(sandbox, [SAY("echo so far; sleep 60"), SUBMIT], exec_timeout_s=0.5)
    executed = done.steps[0].executed
    assert done.stop == "submitted" and executed and executed.reason == "timeout"
    assert "so far" in done.messages[2].content


class Tokens:
    """A policy with made-up tokens: prompts grow by two template and one content token a turn."""

    name = "tokens"

    def __init__(self, *, rewrite: bool = False):
        self.rewrite = rewrite

    def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, object]] = (),
        sampling: Sampling,
        previous: Reply | None = None,
    ) -> Reply:
        before = (*previous.prompt_ids, *previous.ids) if previous and previous.prompt_ids and previous.ids else ()
        prompt = (*before, 1, 7, 2)
        if self.rewrite and previous:
            prompt = (9, *prompt[1:])
        message = SUBMIT if previous else SAY("true")
        return Reply(message, "stop", Usage(1, len(prompt), 2), prompt, (5, 6), (-0.5, -0.25), "tet", 3)

    def close(self) -> None: ...


def test_the_ledger_accounts_for_every_token(sandbox: Sandbox) -> None:
    done = MiniLoop(schema.Harness(), PROMPTS).run(TASK, sandbox, Tokens(), Sampling())
    (ledger,) = done.ledgers
    assert ledger.ids == (1, 7, 2, 5, 6, 1, 7, 2, 5, 6)
    assert ledger.logprobs == (-0.5, -0.25) * 2
    assert [(r.length, r.origin.value, r.mask, r.weight_version) for r in ledger.runs][:4] == [
        (1, "template", "template", -1),
        (1, "environment", "environment", -1),
        (1, "template", "template", -1),
        (2, "policy", "", 3),
    ]
    assert [s.span for s in done.steps] == [(3, 5), (8, 10)]


def test_a_rewritten_history_is_a_fault(sandbox: Sandbox) -> None:
    done = MiniLoop(schema.Harness(), PROMPTS).run(TASK, sandbox, Tokens(rewrite=True), Sampling())
    assert done.stop == "error" and done.fault and done.fault.code == "history_rewritten"


def test_a_transcript_is_continued(sandbox: Sandbox) -> None:
    first = run(sandbox, [SAY("echo a > f")], max_steps=1)
    loop = MiniLoop(schema.Harness(), PROMPTS)
    policy = ScriptedPolicy.replies("script", [SAY("never"), SAY("cat f"), SUBMIT])
    done = loop.run(TASK, sandbox, policy, Sampling(), resume=first)
    assert done.stop == "submitted" and len(done.steps) == 3
    assert done.messages[4].content.strip() == "a"
