"""The scripted teacher through the real loop, in real sandboxes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.swe.script import CHUNK, PATCH, noop, script

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env, Spec
from orchard_cli.harness.formats import FORMATS
from orchard_cli.harness.harness import Transcript
from orchard_cli.harness.loop import MiniLoop
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

PROMPTS = Path(__file__).parents[3] / "recipes/swe/prompts/full"
OLD = "".join(f"line {i}\n" for i in range(40))


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    made = open_env(schema.Env())
    yield made
    made.close()


def _patch(folder: Path, new: dict[str, str]) -> tuple[Path, str]:
    """A tree with one file `it's.txt`, and the diff that gives it (and others) new content."""
    tree = folder / "tree"
    tree.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-c", "core.autocrlf=false"]
    (tree / "it's.txt").write_bytes(OLD.encode())
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=tree, check=True)
    for name, text in new.items():
        (tree / name).write_bytes(text.encode())
    subprocess.run([*git, "add", "-A", "-N"], cwd=tree, check=True)
    diff = subprocess.run([*git, "diff", "--text"], cwd=tree, check=True, capture_output=True).stdout.decode()
    subprocess.run([*git, "reset", "-q", "--hard"], cwd=tree, check=True)
    for name in set(new) - {"it's.txt"}:
        (tree / name).unlink(missing_ok=True)
    return tree, diff


def _run(env: Env, tree: Path, task: Task, policy: ScriptedPolicy, kind: str = "fence") -> tuple[Transcript, str]:
    loop = MiniLoop(schema.Harness(max_steps=30, format=kind, prompt="full"), PROMPTS)
    with env.open(Spec(tree=tree)) as sandbox:
        transcript = loop.run(task, sandbox, policy, Sampling())
        return transcript, sandbox.diff()


@pytest.mark.parametrize("kind", ["fence", "tool"])
@pytest.mark.parametrize(
    "new",
    [
        {"it's.txt": OLD.replace("line 7", "seven $HOME `id` \\ '\" EOF")},
        {"it's.txt": OLD.replace("line 7\n", "EOF\nEOF_\n```bash\nrm -rf /\n```\n")},
        {"it's.txt": OLD.replace("line 7\n", "seven\r\n\f\u2028x\n").rstrip("\n")},
        {"it's.txt": OLD + "".join(f"{i:07d} {'x' * 90}\n" for i in range(3 * CHUNK // 99))},
        {"it's.txt": OLD.replace("line 7", "7"), "a new file.py": "print('x')\n"},
    ],
    ids=["shell characters", "fences and delimiters", "line ends", "large", "two files"],
)
def test_the_fix_arrives_whole_whatever_its_text(env: Env, tmp_path: Path, new: dict[str, str], kind: str) -> None:
    tree, patch = _patch(tmp_path, new)
    task = Task("t", "swe", "?", hidden={"patch": patch})
    transcript, _ = _run(env, tree, task, script(task, seed=0, error_rate=0.0, format=FORMATS[kind]), kind)
    assert transcript.stop == "submitted"
    loop = MiniLoop(schema.Harness(max_steps=30, format=kind), PROMPTS)
    with env.open(Spec(tree=tree)) as sandbox:
        loop.run(task, sandbox, script(task, seed=0, error_rate=0.0, format=FORMATS[kind]), Sampling())
        for name, text in new.items():
            assert sandbox.read(name).decode() == text


def test_errors_come_at_the_given_rate_and_by_the_seed(tmp_path: Path) -> None:
    _, patch = _patch(tmp_path, {"it's.txt": OLD.replace("line 7", "7")})
    task = Task("t", "swe", "?", hidden={"patch": patch})

    def said(seed: int, rate: float) -> tuple[str, ...]:
        policy, messages = script(task, seed=seed, error_rate=rate, format=FORMATS["fence"]), []
        while not messages or "COMPLETE_TASK" not in messages[-1].content:
            messages.append(policy.reply(messages, sampling=Sampling()).message)
        return tuple(m.content for m in messages)

    right = said(0, 0.0)
    assert all(said(seed, 0.0) == right for seed in range(20))
    wrong = [said(seed, 0.5) != right for seed in range(200)]
    assert 70 <= sum(wrong) <= 130
    assert len({said(seed, 1.0) for seed in range(50)}) >= 3
    assert said(7, 0.5) == said(7, 0.5)


def test_no_way_of_going_wrong_leaves_the_whole_fix(env: Env, tmp_path: Path) -> None:
    tree, patch = _patch(tmp_path, {"it's.txt": OLD.replace("line 7", "7").replace("line 30", "30")})
    task = Task("t", "swe", "?", hidden={"patch": patch})
    _, right = _run(env, tree, task, script(task, seed=0, error_rate=0.0, format=FORMATS["fence"]))
    left = set()
    for seed in range(12):
        transcript, diff = _run(env, tree, task, script(task, seed=seed, error_rate=1.0, format=FORMATS["fence"]))
        assert transcript.stop == "submitted"
        assert diff != right
        left.add(diff)
    assert len(left) >= 3


def test_an_attempt_that_somebody_else_began_is_finished(env: Env, tmp_path: Path) -> None:
    tree, patch = _patch(tmp_path, {"it's.txt": OLD.replace("line 7", "7")})
    task = Task("t", "swe", "?", hidden={"patch": patch})
    policy = script(task, seed=0, error_rate=0.0, format=FORMATS["fence"])
    begun = [Message("user", "?"), FORMATS["fence"].encode("cat nothing"), Message("user", "no such file")]
    messages = list(begun)
    for _ in range(10):
        messages.append(policy.reply(messages, sampling=Sampling()).message)
        if "COMPLETE_TASK" in messages[-1].content:
            break
    assert any(PATCH in m.content for m in messages)
    assert "COMPLETE_TASK" in messages[-1].content


def test_noop_submits_at_once_and_changes_nothing(env: Env, tmp_path: Path) -> None:
    tree, _ = _patch(tmp_path, {})
    transcript, diff = _run(env, tree, Task("t", "swe", "?"), noop(FORMATS["fence"]))
    assert (transcript.stop, len(transcript.steps), diff) == ("submitted", 1, "")


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="-+ @d\n\\ab/,1", max_size=300), st.integers(0, 99))
def test_any_patch_text_gives_a_plan_that_ends(patch: str, seed: int) -> None:
    task = Task("t", "swe", "?", hidden={"patch": patch})
    policy = script(task, seed=seed, error_rate=0.7, format=FORMATS["tool"])
    messages: list[Message] = []
    for _ in range(20):
        messages.append(policy.reply(messages, sampling=Sampling()).message)
    assert "COMPLETE_TASK" in str(messages[-1].tool_calls)
