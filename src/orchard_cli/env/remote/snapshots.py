"""The files of a sandbox, kept by the server beyond its end."""

from urllib.parse import quote

import msgspec

from ..service.bodies import Lifetime, Page, SandboxBody, SandboxView, SnapshotBody
from .env import LEASE_S, RemoteEnv
from .sandbox import RemoteSandbox


class Snapshots:
    """Of one server. Processes are not kept: see `Sandbox.fork` for those."""

    def __init__(self, env: RemoteEnv):
        self._env = env

    def take(self, box: RemoteSandbox, *, keep_s: float = 86_400.0, labels: dict[str, str] | None = None) -> str:
        """Its id; the server keeps it for `keep_s` seconds."""
        body = msgspec.json.encode(SnapshotBody(labels=labels or {}, ttl_s=keep_s))
        raw = self._env.client.ask(
            "POST", f"/v1/sandboxes/{box.id}/snapshots", body, query={"wait": 60}, timeout_s=120.0
        )
        return msgspec.json.decode(raw, type=SandboxView).id

    def open(self, id: str) -> RemoteSandbox:
        """A new sandbox with those files, renewed and closed by us."""
        return self._env.adopt(self._env.make(SandboxBody(from_snapshot=id, lifetime=Lifetime(lease_s=LEASE_S))))

    def list(self) -> tuple[SandboxView, ...]:
        """All that our key may see."""
        found: list[SandboxView] = []
        after = ""
        while True:
            raw = self._env.client.ask("GET", "/v1/snapshots", query={"limit": 1000, "after": after})
            page = msgspec.json.decode(raw, type=Page)
            found += page.items
            if not (after := page.next):
                return tuple(found)

    def delete(self, id: str) -> None:
        self._env.client.ask("DELETE", f"/v1/snapshots/{quote(id, safe='')}")
