"""A person can read an attempt, and nothing in it can act on the terminal or hide."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.errors import Fault
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Executed, Message, Step, ToolCall, Trajectory
from orchard_cli.trajectory.render import blocks, printable, render

Make = Callable[..., Trajectory]

EXPECTED = """\
── trajectory t0 ──
  task     task0 (swe, train, family off_by_one)
  attempt  0, stage distill, seed 0, policy tiny, harness mini
  outcome  solved, reward 1, stopped by submitted, 2 steps
  tokens   20: 8 sampled (7 trainable, 1 masked: after_stop), 8 template, 4 environment
  usage    2 calls, 30 prompt + 8 completion tokens, $0.0010
  time     1.5 s, started 2026-01-02T03:04:05Z

── system ──
  Fix the bug.

── user ──
  f(2) is 3, not 4

── step 1 · assistant · 4 tokens [6, 10) ──
  look
  → bash (call_0)
    command: ls

── step 1 · observation (tool) · exit 0 · 0.01 s ──
  a.py

── step 2 · assistant · 4 tokens [14, 18) ──
  ```bash
  submit
  ```

── step 2 · no observation · exit 0 · 0.00 s ──
"""


def test_an_attempt_reads_from_top_to_bottom(make: Make) -> None:
    assert render(make()) == EXPECTED


def test_faults_timeouts_cuts_and_missing_actions_are_shown(make: Make) -> None:
    text = render(
        make(
            outcome=Outcome.INFRA_ERROR,
            reward=None,
            fault=Fault("sandbox", "infra.gone", "the sandbox\nwent away", attributable="infra"),
            steps=(
                Step(2, "", 3, finish="length"),
                Step(4, "x", -1, Executed(None, "timeout", 60.0, output_bytes=900, truncated_bytes=100)),
            ),
            artifact="--- a\n+++ b",
        )
    )
    assert "infra_error, no reward" in text
    assert r"fault    sandbox infra.gone (infra): the sandbox\nwent away" in text
    assert "── step 1 · assistant · finish length · no action ──" in text
    assert "── step 2 · no observation · timeout · 60.00 s · 100 of 900 bytes cut ──" in text
    assert text.endswith("── what was graded ──\n  --- a\n  +++ b\n")


def test_long_messages_are_cut_in_the_middle_when_asked(make: Make) -> None:
    long = make(messages=(Message("user", "a" * 500 + "b" * 500),), steps=())
    assert "a" * 500 + "b" * 500 in render(long)
    assert f"{'a' * 50}\n  … 900 characters left out …\n  {'b' * 50}" in render(long, chars=100)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("good\rbad", r"good\rbad"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\U000e0041", r"a\u200bb\U000e0041"),
        ("line\u2028end", r"line\u2028end"),
        ("\ud800", r"\ud800"),
        ("tab\tand\nline é 漢 🙂", "tab\tand\nline é 漢 🙂"),
    ],
)
def test_what_could_act_or_hide_is_written_out(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown


def test_no_field_can_carry_a_control_character_or_a_line_into_a_title(make: Make) -> None:
    bad = "x\x1b[0m\n── step 9 ──\u202e"
    call = ToolCall(bad, bad, {bad: [bad]})
    hostile = make(
        id=bad,
        task_id=bad,
        domain=bad,
        policy=bad,
        harness=bad,
        stop=bad,
        stage=bad,
        family=bad,
        started_at=bad,
        artifact=bad,
        messages=(Message("assistant", bad, bad, (call,)), Message("tool", bad, tool_call_id=bad)),
        steps=(Step(0, bad, 1, Executed(1, bad), finish=bad),),
        fault=Fault(bad, bad, bad),
        outcome=Outcome.CANCELLED,
        reward=None,
    )
    text = render(hostile)
    assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    titles = [line for line in text.splitlines() if not line.startswith("  ") and line]
    assert titles == [f"── {block.title} ──" for block in blocks(hostile)]


@given(st.text(st.characters()))
def test_any_text_becomes_printable_and_stays_so(text: str) -> None:
    once = printable(text, lines=False)
    assert once == printable(once, lines=False)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in once)
