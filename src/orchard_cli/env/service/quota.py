"""How many sandboxes a key holds on all servers that share a store."""

from ...errors import SandboxError
from .keys import Principal
from .problem import refused
from .store.store import Kind, Store

NO_LIMIT = 1_000_000
KINDS: tuple[Kind, ...] = ("sandbox", "snapshot")


async def held(store: Store, who: Principal) -> int:
    """Records that this key's sandboxes and snapshots have; 0 without looking for a key without a limit.

    Asked after one's own record is written: of two that take the last place at once both may be refused, never none.
    """
    count = 0
    for kind in KINDS if who.max_sandboxes < NO_LIMIT else ():
        after = ""
        while page := await store.page(kind, tenant=who.tenant, after=after, limit=1000):
            count += sum(record.body["key"] == who.key for record in page)
            after = page[-1].id
    return count


def exceeded(who: Principal) -> SandboxError:
    return refused(f"this key may hold {who.max_sandboxes} sandboxes", "capacity.quota")
