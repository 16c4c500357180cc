"""New families: only what is new and proved is kept; what was done before is not done again."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from orchard_cli.recipes.claw.commands import synth
from orchard_cli.recipes.claw.synth_alike import Known, copied, near
from orchard_cli.recipes.claw.synth_mix import may_mix, mix
from orchard_cli.recipes.claw.synth_model import Writer
from orchard_cli.recipes.claw.tasks.family import family
from orchard_cli.recipes.claw.tasks.library import load, shipped
from orchard_cli.recipes.claw.tasks.reading import FieldError

from orchard_cli import domains, schema
from orchard_cli.errors import ConfigError
from orchard_cli.launch.local import look
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.trajectory import Message

GOOD = shipped()["todo_add"].page


def _said(page: object) -> Message:
    return Message("assistant", f"```yaml\n{yaml.safe_dump(page, sort_keys=False)}\n```")


def test_the_command_keeps_what_it_proved_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    words = ["n=2", f"out={tmp_path}", "run=s", "seed=3"]
    assert look("claw", "synth", words)
    folder = tmp_path / "claw" / "s" / "synth"
    lines = (folder / "log.jsonl").read_text().splitlines()
    found, problems = load(folder / "families.yaml")
    assert len(found) == 2 and not problems
    assert [e["kept"] for e in map(json.loads, lines)].count(True) == 2
    (folder / "log.jsonl").write_text("\n".join(lines) + '\n{"number": 9, "cut')  # as a kill leaves it
    assert look("claw", "synth", words)
    assert (folder / "log.jsonl").read_text().splitlines()[: len(lines)] == lines
    assert load(folder / "families.yaml")[0].keys() == found.keys()


def test_what_it_made_is_a_task_set_that_check_proves(tmp_path: Path) -> None:
    look("claw", "synth", ["n=1", f"out={tmp_path}", "run=s", "seed=5"])
    path = tmp_path / "claw" / "s" / "synth" / "families.yaml"
    assert look("claw", "check", ["tasks=file", f"tasks.path={path}", "tasks.train=1", "tasks.eval=1"])


def test_joined_families_share_no_name_and_ask_for_both() -> None:
    some = [f for f in shipped().values() if may_mix(f)]
    for seed in range(20):
        page = mix(some, random.Random(seed))
        first, second = page["family"].split("__")
        assert first != second and page["say"][0].count("Then:") == 1
        assert all(name[:2] in ("a_", "b_") for name in page["draw"])


def test_a_model_that_errs_gets_the_evidence_and_its_next_page_is_taken() -> None:
    bad = {k: v for k, v in GOOD.items() if k != "slips"} | {"want": [{"row": "todo"}]}
    policy = ScriptedPolicy.replies("m", [Message("assistant", "Here you are."), _said(bad), _said(GOOD)])
    writer = Writer(policy, "example", ["x"], 0)
    with pytest.raises(FieldError, match="0 blocks"):
        writer.page()
    writer.refine(["the reply holds 0 blocks"])
    faults = list(synth._wrong(family(writer.page()), [], []))
    assert any("two wrong ways" in fault for fault in faults)
    writer.refine(faults)
    made = family(writer.page())
    assert not list(synth._wrong(made, [], [])) and writer.usage.calls == 3


def test_an_old_family_under_a_new_name_is_nearly_the_old_one() -> None:
    known = [Known(name, synth._text(f)) for name, f in shipped().items()]
    again = replace(shipped()["mail_leak"], name="new_name")
    assert list(synth._wrong(again, known, []))[0] == "it is nearly mail_leak"
    assert list(synth._wrong(shipped()["mail_leak"], known, []))[0] == "family: there is a `mail_leak`"


def test_eight_words_in_a_row_from_a_benchmark_are_contamination() -> None:
    benchmark = [Known("bench/1", "Parse the raw email file and extract the key headers into JSON.")]
    assert copied("Please parse the raw email file and extract the key parts.", benchmark) == "bench/1"
    assert copied("Please parse the email file and list its headers.", benchmark) == ""
    assert near("", benchmark) == "" and near("a b", [Known("x", "a b")]) == ""


def test_a_benchmark_that_is_not_named_right_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KIND:PATH"):
        look("claw", "synth", [f"out={tmp_path}", "domain.against=[nothing]"])


def test_a_domain_shows_its_own_commands_without_being_imported() -> None:
    found = domains.find()
    assert domains.commands(found["claw"])["synth"].startswith("Make new task families")
    assert domains.commands(found["swe"]) == {} and domains.command("swe", "synth") is None
    assert {"synth", "against"} <= {f for f in vars(schema.Domain()) | vars(domains.load("claw").Config())}
