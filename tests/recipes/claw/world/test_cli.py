"""The `claw` command."""

import pytest
from orchard_cli.recipes.claw.world.service import cli
from orchard_cli.recipes.claw.world.service.operations import OPERATIONS

from .conftest import Open


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["m1"], {"id": "m1"}),
        (["--id", "m1", "--body=a b"], {"id": "m1", "body": "a b"}),
        (["m1", "hello", "--cc", "x@y.example"], {"id": "m1", "body": "hello", "cc": "x@y.example"}),
        (["--body", "hello", "m1"], {"id": "m1", "body": "hello"}),
    ],
)
def test_arguments_come_in_order_or_by_name(words: list[str], wanted: dict[str, str]) -> None:
    assert cli.parsed(OPERATIONS["mail_reply"], words) == wanted


@pytest.mark.parametrize(
    "words", [["--nme", "x"], ["--id"], ["m1", "b", "c", "d", "e"], ["m1", "--id", "m2"], ["m1", "--id=m2"]]
)
def test_words_that_mean_nothing_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError):
        cli.parsed(OPERATIONS["mail_reply"], words)


def test_a_flag_needs_no_value() -> None:
    assert cli.parsed(OPERATIONS["mail_list"], ["--unread", "--limit", "3"]) == {"unread": "true", "limit": "3"}
    assert cli.parsed(OPERATIONS["mail_list"], ["--unread", "false"]) == {"unread": "false"}


def test_the_command_acts_in_a_sandbox_and_tells_by_its_exit(start: Open) -> None:
    sandbox = start()
    listed = sandbox.exec("claw mail list --query budget")
    assert (listed.exit_code, listed.stdout.decode()[:9]) == (0, "m1 unread")
    wrong = sandbox.exec("claw mail read m77")
    assert (wrong.exit_code, wrong.stdout) == (1, b"not_found: no mail m77\n")
    assert sandbox.exec("claw mail read").stdout.startswith(b"bad_arguments: mail_read needs id")
    assert sandbox.exec("claw mial list").exit_code == 1
    assert b"claw mail send TO SUBJECT BODY [--cc=STRING]" in sandbox.exec("claw mail send --help").stdout
    assert b"claw clock now: " in sandbox.exec("claw").stdout
    assert sandbox.exec("claw done 'all well'").stdout == b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n"
    assert sandbox.exec("CLAW_PORT=1 claw mail list").stdout == b"unavailable: the services do not answer\n"
