"""Pictures in ledgers: where they stand is part of the record, and is verified."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchard_cli.trajectory import Blobs, Ledger, Message, Origin, Run, Shown, Step, Trajectory
from orchard_cli.trajectory.verify import verify

PICTURE = b"a picture"
SHA = sha256(PICTURE).hexdigest()
Make = Callable[..., Trajectory]
Write = Callable[..., Path]


def ledger(*images: Shown) -> Ledger:
    runs = (Run(2, Origin.TEMPLATE, mask="template"), Run(6, Origin.ENVIRONMENT, mask="environment"))
    return Ledger(tuple(range(10)), (*runs, Run(2, Origin.POLICY, 0)), (-1.0, -1.0), images)


@pytest.fixture
def seen(make: Make) -> Make:
    """An attempt of two turns, a picture before each, in a ledger of its own."""

    def build(**changes: Any) -> Trajectory:
        fields: dict[str, Any] = {
            "messages": (Message("user", "a", images=(SHA,)), Message("assistant", "b"), Message("assistant", "c")),
            "steps": (Step(1, "b", span=(8, 10)), Step(2, "c", span=(8, 10), ledger=1)),
            "ledgers": (ledger(Shown(SHA, 2, 4, 1)), ledger(Shown(SHA, 4, 4, 2))),
        }
        return make(0, **{**fields, **changes})

    return build


def codes(path: Path) -> list[tuple[str, str]]:
    Blobs(path.parent / "blobs").put(PICTURE)
    return [(p.field, p.code) for p in verify(path).problems]


def test_steps_point_into_the_ledger_of_their_window(seen: Make, write: Write) -> None:
    assert codes(write(seen())) == []
    steps = seen().steps
    for wrong in (2, -1):
        bad = (steps[0], msgspec.structs.replace(steps[1], ledger=wrong))
        assert codes(write(seen(steps=bad))) == [("steps[1].ledger", "ledger_index")]
    back = (msgspec.structs.replace(steps[0], ledger=1), msgspec.structs.replace(steps[1], ledger=0))
    assert codes(write(seen(steps=back))) == [("steps[1].ledger", "ledger_index")]


@pytest.mark.parametrize("image", [Shown(SHA, 1, 4), Shown(SHA, 6, 4), Shown(SHA, 4, 0), Shown(SHA, 2, 99)])
def test_a_picture_outside_the_tokens_of_the_environment_is_named(seen: Make, write: Write, image: Shown) -> None:
    bad = (ledger(image), ledger())
    assert codes(write(seen(ledgers=bad))) == [("ledgers[0].images[0]", "image_place")]


def test_a_picture_that_no_message_shows_is_named(seen: Make, write: Write) -> None:
    bad = (ledger(Shown("cd" * 32, 2, 4)), ledger())
    assert codes(write(seen(ledgers=bad))) == [("ledgers[0].images[0].sha", "image_unknown")]
