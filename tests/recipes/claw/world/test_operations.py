"""The table of operations and what is made from it agree."""

import inspect
from pathlib import Path

import pytest
import yaml
from orchard_cli.recipes.claw.world import launch, spec
from orchard_cli.recipes.claw.world.service.operations import ARGUMENTS, OPERATIONS, chosen
from orchard_cli.recipes.claw.world.service.world import DOES

README = Path(launch.__file__).with_name("README.md").read_text()


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_done_by_a_function_that_takes_its_arguments(name: str) -> None:
    taken = list(inspect.signature(DOES[name]).parameters)[1:]
    assert taken == [argument.name for argument in OPERATIONS[name].arguments]


def test_required_arguments_come_first_so_that_they_can_be_given_in_order() -> None:
    for operation in OPERATIONS.values():
        needed = [argument.required for argument in operation.arguments]
        assert needed == sorted(needed, reverse=True), operation.name


def test_no_argument_is_explained_that_none_takes() -> None:
    assert {a.name for o in OPERATIONS.values() for a in o.arguments} == set(ARGUMENTS)


def test_the_readme_shows_the_table_as_it_is() -> None:
    for operation in OPERATIONS.values():
        words = ", ".join(a.name + "" * a.required + "?" * (not a.required) for a in operation.arguments)
        effect = "final" if operation.irreversible else "write" if operation.writes else "read"
        assert f"| `{operation.name}` | {words} | {effect} | {operation.about} |" in README


def test_the_example_in_the_readme_is_a_world() -> None:
    start, end = README.index("    seed: 0"), README.index("Kinds of faults")
    text = "\n".join(line[4:] for line in README[start:end].splitlines())
    world = spec.checked(yaml.safe_load(text), where="README.md")
    assert world["mails"][0]["attachments"][0]["name"] == "q1.csv"
    assert all(world[section] for section in spec.fields.SECTIONS)


def test_a_world_can_offer_some_tools_only() -> None:
    assert set(chosen(["notes", "mail_read"])) == {
        *("mail_read", "notes_list", "notes_read", "notes_write"),
        *("clock_now", "user_ask", "done"),
    }
