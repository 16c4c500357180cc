"""One sandbox that this server holds, and when it may go."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import SandboxError
from ..sandbox import Sandbox, Spec
from .bodies import Lifetime, SandboxView, State
from .execs import Execs
from .keys import Principal
from .problem import fault_view, refused
from .store.store import Kind, Record

FAILED_S = 60.0  # that one whose creation failed is told of, and its name kept from others


@dataclass(frozen=True)
class Terms:
    """What the server grants when the client asks for nothing, and the most it grants. Seconds."""

    lease_s: float = 900.0
    max_lease_s: float = 86_400.0
    max_lifetime_s: float = 7 * 86_400.0


def granted(lease_s: float) -> Terms:
    """What follows from the lease that an operator gives: it is never cut by what is granted at most."""
    plain = Terms()
    most = max(plain.max_lease_s, lease_s)
    return Terms(lease_s, most, max(plain.max_lifetime_s, most))


@dataclass
class Live:
    """Times are monotonic; what clients see is wall-clock."""

    id: str
    tenant: str
    key: str
    spec: Spec
    image: str
    labels: dict[str, str]
    lifetime: Lifetime
    terms: Terms
    server: str
    kind: Kind = "sandbox"
    isolation: str = ""
    level: str = ""  # the network of one that asks for nothing
    trees: list[Path] = field(default_factory=list)
    state: State = "creating"
    fault: SandboxError | None = None
    box: Sandbox | None = None
    execs: Execs | None = None
    version: int = 0
    adopted: bool = False  # made by a server that crashed
    created: float = field(default_factory=time.time)
    born: float = field(default_factory=time.monotonic)
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # no longer creating

    def __post_init__(self) -> None:
        self.renewed = self.active = self.born

    @property
    def lease_s(self) -> float:
        if self.state == "failed":
            return FAILED_S  # it holds nothing
        return min(self.lifetime.lease_s or self.terms.lease_s, self.terms.max_lease_s)

    @property
    def ends(self) -> float:
        """Monotonic time at which it expires unless something happens before."""
        ends = [self.renewed + self.lease_s]
        if self.lifetime.idle_timeout_s and not (self.execs and self.execs.running):
            ends.append(self.active + self.lifetime.idle_timeout_s)
        longest = self.lifetime.max_lifetime_s or self.terms.max_lifetime_s
        return min(*ends, self.born + min(longest, self.terms.max_lifetime_s)) if ends else 0.0

    @property
    def overdue(self) -> bool:
        """A command that runs holds the lease, but never beyond the longest lifetime."""
        now = time.monotonic()
        if self.execs and self.execs.running:
            self.renewed = self.active = now
        return now > self.ends

    def touch(self) -> None:
        """Somebody used it: that renews the lease."""
        self.renewed = self.active = time.monotonic()

    def renew(self, lease_s: float = 0.0) -> float:
        """The lease from now on; seconds since 1970 at which it ends."""
        if lease_s:
            old = self.lifetime
            self.lifetime = Lifetime(
                lease_s=min(lease_s, self.terms.max_lease_s),
                idle_timeout_s=old.idle_timeout_s,
                max_lifetime_s=old.max_lifetime_s,
                on_expire=old.on_expire,
            )
        self.renewed = time.monotonic()
        return self.expires

    @property
    def expires(self) -> float:
        return time.time() + self.ends - time.monotonic()

    def ready(self, box: Sandbox, execs: Execs) -> None:
        self.box, self.execs, self.state = box, execs, "ready"
        self.touch()
        self.settled.set()

    def failed(self, error: SandboxError) -> None:
        self.fault, self.state, self.renewed = error, "failed", time.monotonic()
        self.settled.set()

    def yields_to(self, other: "Live") -> bool:
        """One whose creation failed holds nothing, so that its owner may use the name again."""
        return self.state == "failed" and (self.tenant, self.kind) == (other.tenant, other.kind)

    def open_box(self) -> tuple[Sandbox, Execs]:
        """What commands run in. Raises what its creation failed with, or `client.not_ready`."""
        if self.fault:
            raise self.fault
        if self.box is None or self.execs is None or self.state != "ready":
            raise refused(
                f"sandbox {self.id} is {self.state}", "client.not_ready", retry="same", hint="GET it with ?wait=30"
            )
        return self.box, self.execs

    def seen_by(self, who: Principal) -> bool:
        if who.sandbox and (who.sandbox, who.created) != (self.id, self.created):
            return False  # a token for one of the same name that is gone
        return who.admin or who.tenant == self.tenant

    @property
    def network(self) -> str:
        return self.spec.network or self.level

    def view(self) -> SandboxView:
        return SandboxView(
            id=self.id,
            tenant=self.tenant,
            state=self.state,
            image=self.image,
            workdir=self.box.workdir if self.box else self.spec.workdir,
            labels=self.labels,
            network=self.network,
            isolation=self.isolation,
            created=self.created,
            expires=self.expires,
            fault=fault_view(self.fault) if self.fault else None,
            server=self.server,
        )

    def record(self) -> Record:
        """For the store: no variables, no paths of this host."""
        body: dict[str, Any] = {
            "key": self.key,
            "state": self.state,
            "image": self.image,
            "workdir": self.spec.workdir,
            "network": self.spec.network,
            "created": self.created,
            "lease_s": self.lease_s,
            "server": self.server,
        }
        return Record(self.kind, self.id, self.tenant, body, self.labels)


def recorded(record: Record) -> SandboxView:
    """As another server wrote it down."""
    body = record.body
    return SandboxView(
        id=record.id,
        tenant=record.tenant,
        state=body["state"],
        image=body["image"],
        workdir=body["workdir"],
        labels=record.labels,
        network=body["network"],
        created=body["created"],
        server=body["server"],
    )
