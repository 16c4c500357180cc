"""What a sandbox may reach: looked up, and changed while it runs."""

from dataclasses import replace as changed

from msgspec.structs import replace
from starlette.responses import Response

from ...network.ways import Ways
from ..bodies import NetworkBody, NetworkView
from ..call import Call, Operation, json
from ..heritage import noted
from ..live import Live
from ..problem import refused


def _ways(live: Live) -> Ways | None:
    """The back end's, where it has rules that can change."""
    box, _ = live.open_box()
    ways = getattr(box, "ways", None)
    return ways if isinstance(ways, Ways) else None


async def look(call: Call) -> Response:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    ways = _ways(live)
    view = NetworkView(network=live.network, allow=live.spec.allow, changeable=False)
    if ways is not None:
        changeable, decisions = ways.egress is not None, ways.decisions()[-SHOWN:]
        view = replace(view, changeable=changeable, logged_as=ways.sandbox, decisions=decisions)
    return json(view)


async def change(call: Call) -> Response:
    body, _ = await call.read(NetworkBody)
    live = await call.service.fleet.locate(call.path("id"), call.who)
    ways = _ways(live)
    if ways is None:
        raise refused("this back end cannot change the network of a sandbox", "client.unsupported")
    fleet, (box, _) = call.service.fleet, live.open_box()
    ended = await fleet.chore(lambda: ways.change(body.network, body.allow))
    live.spec = changed(live.spec, network=body.network, allow=body.allow)
    await fleet.chore(lambda: noted(fleet.env, live, box))
    call.service.bus.say("network", live.id, live.tenant, network=live.network)
    return json(NetworkView(network=live.network, allow=body.allow, changeable=True, ended=ended))


SHOWN = 200
PATH = "/v1/sandboxes/{id}/network"
OPERATIONS = (
    Operation("GET", PATH, "read", look, "What it may reach", None, NetworkView),
    Operation("PUT", PATH, "create", change, "Other rules from now on", NetworkBody, NetworkView),
)
