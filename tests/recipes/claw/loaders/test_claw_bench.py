"""claw-bench: read as it is distributed, run in a sandbox, judged by its own verifier in another one."""

import shutil
import zipfile
from pathlib import Path

import pytest
from orchard_cli.recipes.claw import Config, Domain

from orchard_cli import schema
from orchard_cli.env.sandbox import Env
from orchard_cli.errors import DataError
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.trajectory import Message, Trajectory


def _domain(path: Path, timeout_s: float = 60.0) -> Domain:
    tasks = schema.Tasks(kind="claw_bench", path=str(path))
    return Domain(Config(grader_timeout_s=timeout_s), tasks, schema.Harness(kind="react", format="calls"), 0)


def _run(domain: Domain, env: Env, policy: Policy | None = None) -> Trajectory:
    (task,) = domain.tasks("eval")
    oracle = domain.script(task, seed=0, error_rate=0.0)
    return attempt(Job(task, policy or oracle, Sampling(), "check", 0), domain, env)


def _says(command: str) -> ScriptedPolicy:
    done = "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"
    return ScriptedPolicy.replies("s", [Message("assistant", f"```bash\n{command}\n```"), Message("assistant", done)])


def _verifier(bench: Path, text: str) -> None:
    (bench / "files/one/verifier/test_output.py").write_text(text)


def test_the_solution_passes_and_doing_nothing_does_not(bench: Path, env: Env) -> None:
    domain = _domain(bench)
    solved = _run(domain, env)
    assert (solved.outcome, solved.reward, solved.grade["checks"]) == (Outcome.SOLVED, 1.0, [2, 2])
    assert "/workspace/in.txt" in solved.messages[0].content
    (task,) = domain.tasks("eval")
    nothing = _run(domain, env, domain.noop(task))
    assert (nothing.outcome, nothing.reward, nothing.grade["checks"]) == (Outcome.UNSOLVED, 0.0, [0, 2])


def test_the_agent_sees_the_set_up_but_neither_verifier_nor_solution(bench: Path, env: Env) -> None:
    said = _run(_domain(bench), env, _says("cat sub/setup.txt; ls -R /task /workspace"))
    assert "made" in said.messages[-2].content
    assert "test_output" not in said.messages[-2].content and "solve.sh" not in said.messages[-2].content


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import time\ntime.sleep(60)\ndef test_a(): pass\n", "grader.timeout"),
        ("import os\nos._exit(0)\n", "grader.no_report"),
        ("import os\nos._exit(3)\n", "grader.crash"),
        ("def broken(:\n", "grader.crash"),
    ],
)
def test_a_verifier_that_hangs_or_crashes_is_a_verifier_error(bench: Path, env: Env, text: str, code: str) -> None:
    _verifier(bench, text)
    lost = _run(_domain(bench, timeout_s=4.0), env)
    assert (lost.outcome, lost.reward) == (Outcome.VERIFIER_ERROR, None)
    assert lost.fault is not None and lost.fault.code == code


def test_a_verifier_reaches_neither_the_network_nor_this_machine(bench: Path, env: Env, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    _verifier(
        bench,
        "import pathlib, socket, pytest\n"
        "def test_net():\n    with pytest.raises(OSError): socket.create_connection(('1.1.1.1', 53), 2)\n"
        f"def test_out():\n    with pytest.raises(OSError): pathlib.Path({str(mark)!r}).write_text('x')\n",
    )
    assert _run(_domain(bench), env).outcome is Outcome.SOLVED
    assert not mark.exists()


def test_a_task_with_a_missing_part_is_named_and_the_others_are_used(bench: Path) -> None:
    shutil.copytree(bench / "files/one", bench / "files/two")
    (bench / "files/two/instruction.md").unlink()
    shutil.copytree(bench / "files/one", bench / "files/three")
    (bench / "files/three/task.toml").write_text('title = "no id"')
    domain = _domain(bench)
    assert [t.id for t in domain.tasks("eval")] == ["claw_bench/one"]
    assert sorted(p.field for p in domain.problems) == ["id", "instruction.md"]


def test_a_wheel_is_read_and_a_folder_without_tasks_is_an_error(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = tmp_path / "claw_bench-0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in bench.rglob("*.*"):
            archive.write(file, f"x.data/data/share/claw-bench/tasks/{file.relative_to(bench)}")
    assert [t.id for t in _domain(wheel).tasks("eval")] == ["claw_bench/one"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no task of claw-bench"):
        list(_domain(tmp_path / "empty").tasks("eval"))
    (tmp_path / "bad.whl").write_text("no zip")
    with pytest.raises(DataError, match="not a wheel"):
        list(_domain(tmp_path / "bad.whl").tasks("eval"))
