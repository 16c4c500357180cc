"""Sandboxes that are no more, and why: told to whoever still asks for them. The oldest are forgotten."""

from collections import OrderedDict

from ...errors import SandboxError
from .keys import Principal
from .problem import refused
from .store.store import Kind

REMEMBERED = 10_000
MISSING: dict[Kind, str] = {"sandbox": "client.no_such_sandbox", "snapshot": "client.no_such_snapshot"}


class Gone:
    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()  # id → tenant and reason

    def remember(self, id: str, tenant: str, why: str) -> None:
        self._known[id] = (tenant, why)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def forget(self, id: str) -> None:
        """There is one of that name again."""
        self._known.pop(id, None)

    def told(self, id: str, who: Principal, kind: Kind) -> SandboxError:
        """Another tenant's is as if it had never been."""
        tenant, reason = self._known.get(id, ("", ""))
        if reason and (who.admin or tenant == who.tenant):
            code = "infra.sandbox_lost" if reason.startswith("lost") else "client.gone"
            return refused(f"{kind} {id} is gone: {reason}", code, effect="unknown", retry="fresh")
        hint = "`orchard env ps`, or GET /v1/sandboxes, lists those there are" if kind == "sandbox" else ""
        return refused(f"there is no {kind} {id[:100]}", MISSING[kind], hint=hint)
