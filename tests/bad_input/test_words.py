"""Wrong words on the command line: exit 2, one line of what is wrong, one of what to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchard_cli.commands import runs, traj
from orchard_cli.errors import ConfigError, RunError
from orchard_cli.launch.local import launch

from .cli import orchard, refused

WRONG = [
    ("sew", "no such command `sew`", "did you mean `swe`?"),
    ("swe distil", "no such command `distil`", "did you mean `distill`?"),
    ("zzz", "no such command `zzz`", "`orchard --help` lists what there is"),
    ("echo distill --nope", "no such option: --nope", "`orchard echo distill --help` lists what there is"),
    ("--versoin", "no such option: --versoin", "did you mean `--version`?"),
    ("traj show", "missing argument `place`", "`orchard traj show --help` lists what there is"),
    ("runs ls extra", "got unexpected extra argument(s) (extra)", "`orchard runs ls --help` lists what there is"),
    ("echo distill --show --plan", "--show and --plan exclude each other", "give one of them"),
    (
        "echo distill --plan --fresh",
        "--fresh does nothing with --show or --plan, which write nothing",
        "leave it out",
    ),
    (
        "traj ls . --outcome lost",
        "invalid value for `--outcome`: `lost` is not one of `solved`, `unsolved`, `truncated`, `policy_invalid`, "
        "`infra_error`, `verifier_error`, `cancelled`",
        "`orchard traj ls --help` lists what there is",
    ),
    ("echo distill rl.steps --json", "`rl.steps` is not of the form KEY=VALUE", "write `rl.steps=VALUE`"),
]


@pytest.mark.parametrize(("words", "error", "hint"), WRONG, ids=[w[0] for w in WRONG])
def test_a_wrong_command_is_refused_in_two_lines(tmp_path: Path, words: str, error: str, hint: str) -> None:
    refused(orchard(*words.split(), cwd=tmp_path), 2, error, hint)
    assert not list(tmp_path.iterdir())


def test_a_recipes_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = orchard("domains", cwd=tmp_path, ORCHARD_RECIPES="nowhere")
    refused(ended, 2, "$ORCHARD_RECIPES names nowhere, which is no folder", "it holds folders of domains")


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [("def\n", "SyntaxError: invalid syntax", 1), ("a = 1\nraise KeyError('x')\n", "KeyError: 'x'", 2)],
)
def test_a_domain_that_cannot_be_imported_is_named(tmp_path: Path, text: str, error: str, line: int) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "domain.yaml").write_text("domain: {}\n")
    (tmp_path / "own" / "__init__.py").write_text(text)
    ended = orchard("own", "tasks", cwd=tmp_path, ORCHARD_RECIPES=str(tmp_path))
    assert f"error: domain `own` cannot be imported: {error}" in ended.err
    assert ended.err.endswith(f"own/__init__.py:{line}\n")
    assert (ended.code, "Traceback" in ended.err) == (2, False)


@pytest.mark.parametrize("words", [(), ("echo",), ("traj",)])
def test_a_command_without_its_words_shows_the_help(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = orchard(*words, cwd=tmp_path)
    assert ended.code == 2
    assert f"Usage: {' '.join(('orchard', *words))} [OPTIONS] COMMAND" in ended.out


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden", "a b", "x" * 101])
def test_a_run_name_is_one_plain_word(echo: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        launch("echo", "distill", [f"run={name}"])
    assert str(caught.value) == f"run={name} is no name for a run"
    assert caught.value.hint == "letters, digits, `.`, `_` and `-`, such as run=first"
    assert not list(echo.iterdir())


def test_an_empty_out_is_refused(echo: Path) -> None:
    with pytest.raises(ConfigError, match="out is empty"):
        launch("echo", "distill", ["out="])


def test_every_command_with_json_prints_one_document(echo: Path) -> None:
    file = "runs/echo/demo/distill/trajectories.jsonl.zst"
    commands = [
        "domains",
        "echo distill --show",
        "echo run --plan",
        "echo distill",
        "echo distill",  # unchanged
        "echo tasks",
        "echo check",
        "runs ls",
        "runs show demo",
        "traj ls runs",
        "traj show runs",
        "traj stats runs",
        "traj verify runs",
        f"traj compact {file}",
        "traj compact runs",
    ]
    for command in commands:
        ended = orchard(*command.split(), "--json", cwd=echo)
        assert ended.code == 0, ended.err
        assert json.loads(ended.out), command


def test_what_is_not_there_is_named(echo: Path) -> None:
    launch("echo", "distill", [])
    with pytest.raises(RunError) as run:
        runs.find("zzz", Path("runs"))
    assert (str(run.value), run.value.hint) == (
        "there is no run `zzz` in runs",
        "`orchard runs ls` lists what there is",
    )
    ended = orchard("traj", "show", "runs", "zzz", cwd=echo)
    refused(ended, 1, "no trajectory in runs has an id that starts with `zzz`", "orchard traj ls runs")
    ended = orchard("traj", "ls", "nowhere", cwd=echo)
    hint = "`orchard runs ls` lists the runs; their stages write them"
    refused(ended, 1, "no trajectories in nowhere", hint)
    assert traj.files(Path("runs"))


def test_a_terminal_without_utf8_and_a_reader_that_leaves_do_no_harm(echo: Path) -> None:
    launch("echo", "distill", [])
    ended = orchard("traj", "show", "runs", cwd=echo, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ended.code == 0 and ended.out.startswith(r"\u2500\u2500 trajectory distill/train-")
    piped = f"for i in 1 2 3 4 5 6 7 8; do {sys.executable} -m orchard_cli traj show runs; done | head -1"
    ended = subprocess.run(["bash", "-c", piped], cwd=echo, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
