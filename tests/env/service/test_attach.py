"""A command over a WebSocket: what means nothing is answered in words."""

import json

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from .conftest import Rest


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"resize": [0, 80]}, "rows and columns"),
        ({"resize": [24, 70_000]}, "resize"),
        ({"resize": "big"}, "resize"),
        ({"resize": [24]}, "resize"),
        ({"signal": 999}, "signal"),
        ({"resise": [24, 80]}, "resise"),
    ],
)
def test_a_message_that_means_nothing_is_named(rest: Rest, said: dict[str, object], named: str) -> None:
    id = rest.make()
    begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 60", "rows": 24, "cols": 80}).json["id"]
    url = f"ws{rest.url.removeprefix('http')}/v1/sandboxes/{id}/execs/{begun}/attach"
    with connect(url, additional_headers={"Authorization": f"Bearer {rest.key}"}, proxy=None) as wire:
        wire.send(json.dumps(said))
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                wire.recv(timeout=20)
    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, named in caught.value.rcvd.reason) == (1008, True)
    assert rest("GET", f"/v1/sandboxes/{id}/execs/{begun}").json["state"] == "running"
