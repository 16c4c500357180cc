"""Files as streams: in pieces, whole or not at all."""

from collections.abc import Iterator

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.sandbox import LocalSandbox
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import SandboxError


@pytest.fixture(scope="module")
def box() -> Iterator[LocalSandbox]:
    with LocalEnv() as env, env.open(Spec()) as opened:
        assert isinstance(opened, LocalSandbox)
        yield opened


def test_a_large_file_comes_back_as_it_went_in(box: LocalSandbox) -> None:
    pieces = [bytes([number]) * (1 << 20) for number in range(8)]
    box.store("sub/large", pieces, mode=0o640)
    assert b"".join(box.fetch("sub/large")) == b"".join(pieces)
    assert box.exec("stat -c %a sub/large").stdout == b"640\n"


def test_what_breaks_off_leaves_the_old_file(box: LocalSandbox) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"new" * 1000
        raise ConnectionAbortedError

    box.write("kept", b"old")
    with pytest.raises(SandboxError) as caught:
        box.store("kept", breaks())
    assert caught.value.fault.effect == "unknown"
    assert box.read("kept") == b"old"


def test_a_file_that_is_not_there_is_named(box: LocalSandbox) -> None:
    with pytest.raises(SandboxError, match="nowhere") as caught:
        next(box.fetch("nowhere"))
    assert caught.value.fault.code == "client.no_such_file"
