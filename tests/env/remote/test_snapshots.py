"""Files that are kept beyond the end of their sandbox."""

import pytest

from orchard_cli.env.remote import RemoteEnv, Snapshots
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import SandboxError

from ..service.conftest import Rest


def test_a_snapshot_is_taken_opened_listed_and_deleted(rest: Rest) -> None:
    with RemoteEnv(rest.url, rest.key) as env:
        kept = Snapshots(env)
        with env.open(Spec()) as box:
            box.write("f", b"1")
            id = kept.take(box, keep_s=600, labels={"of": "test"})
            box.write("f", b"2")
        (view,) = kept.list()
        assert (view.id, view.labels, view.state) == (id, {"of": "test"}, "ready")
        assert 500 < view.expires - view.created <= 600
        for text in (b"3", b"4"):
            with kept.open(id) as twin:
                assert twin.read("f") == b"1"
                twin.write("f", text)
        kept.delete(id)
        assert kept.list() == ()
        with pytest.raises(SandboxError) as caught:
            kept.open(id)
        assert caught.value.fault.attributable == "client"
