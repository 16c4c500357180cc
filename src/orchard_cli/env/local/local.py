"""Sandboxes on this machine: bubblewrap behind a spawner process, proven at start; or none at all, by name."""

import os
import platform
import posixpath
import tempfile
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ... import __version__, schema
from ...errors import ConfigError, SandboxError
from ..network.exits import Exits
from ..sandbox import Limits, Sandbox, Spec
from . import leftovers, probe
from .binds import completed, own_python
from .lasting import Heir, Lasting, heirs
from .link import Link
from .sandbox import LocalSandbox

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENV = {
    "PATH": PATH,
    "HOME": "/root",
    "LC_CTYPE": "C.UTF-8",  # with LANG each program would read twelve files to learn what C says about all else
    "TERM": "dumb",
    "TMPDIR": "/tmp",
    "TAR_OPTIONS": "--no-same-owner",  # one user id is all that there is inside
}
HINT = "apt-get install bubblewrap, or env.isolation=process to run without isolation"
IMAGES = "env.isolation=container or gvisor, which take archives and what an engine of this machine holds"
DEFAULT = Limits()
RESERVED = ("/", "/dev", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")


class LocalEnv:
    """See `Env`. Raises `ConfigError` when the isolation asked for cannot be proven here.

    `limits` hold for a spec that names none. `network` and `allow` hold for a spec that asks for nothing; one that
    asks for more is refused. With `lasting`, sandboxes outlive a crash of this process: see `left`.
    """

    def __init__(
        self,
        isolation: str = "auto",
        network: str = "none",
        limits: Limits = DEFAULT,
        *,
        allow: tuple[str, ...] = (),
        network_log: Path | None = None,
        lasting: Lasting | None = None,
    ):
        if isolation not in ("auto", "bwrap", "process"):
            raise ConfigError(
                f"env.isolation={isolation} is not known", hint="auto, bwrap, process, gvisor or container"
            )
        self._isolated, self._limits = isolation != "process", limits
        self._bwrap = probe.bubblewrap(HINT) if self._isolated else []
        self._python = own_python() if self._isolated else ((), "")
        self._lock = threading.Lock()
        self._closed = False
        self._proof: dict[str, bool] = {}
        self._lasting, self.left = lasting, tuple[Heir, ...]()
        self._exits = Exits(network, allow, isolated=self._isolated, log=network_log)
        leftovers.sweep()
        try:
            if not (inherited := self._inherit()):
                self._start()
        except BaseException:
            self._exits.close()
            raise
        try:
            if self._isolated:
                wanted = probe.wanted(network, filtered=self._facts["seccomp"])
                probe.prove(self, wanted, HINT)
                self._proof = dict.fromkeys(wanted, True)
        except BaseException:
            self._leave() if inherited else self.close()
            raise

    def _leave(self) -> None:
        """As if we had died: what has outlived one driver outlives one that cannot begin, too."""
        self._closed = True
        self._exits.close()
        self._link.leave()

    @property
    def _hello(self) -> dict[str, Any]:
        return {"bwrap": self._bwrap, "network": self._exits.level == "host", "version": __version__}

    def _start(self) -> None:
        self._link = Link()
        keep_s = self._lasting.keep_s if self._lasting else 0.0
        owner = self._link.process.pid if keep_s else 0  # whose death makes the folder a leftover
        self.base = Path(tempfile.mkdtemp(prefix=leftovers.prefix(owner)))
        try:
            self._facts, _ = self._link.ask("hello", base=str(self.base), keep_s=keep_s, **self._hello, wait_s=60)
        except SandboxError as error:
            self._stop()
            raise ConfigError(f"no sandboxes on this machine: {error}", hint=HINT) from error
        if keep_s and self._lasting:
            self._lasting.remember(self.base)

    def _inherit(self) -> bool:
        """Take over what a driver before us left; False if there is nothing."""
        found = self._lasting.find(self._hello) if self._lasting else None
        if found is None:
            return False
        self._link, self.base, told = found
        self._facts = told["facts"]
        self.left = heirs(self._link, told["boxes"], self._reopen)
        return True

    def _stop(self) -> None:
        if self._lasting:
            with suppress(SandboxError):
                self._link.ask("bye", wait_s=60)
            self._lasting.forget()
        self._link.close()
        leftovers.remove(self.base)

    def check(self, spec: Spec) -> None:
        """Raises what `open` refuses before anything is made."""
        self._exits.check(spec)
        check_paths(spec, RESERVED)
        if spec.image != "host" and not Path(spec.image).is_dir():
            raise _bad_spec(f"{spec.image} is no directory, and this tier knows no other images", IMAGES)

    def open(self, spec: Spec) -> Sandbox:
        self.check(spec)
        limits = spec.limits if spec.limits != DEFAULT else self._limits
        return self._open(replace(spec, limits=limits), self._alive(), source="")

    def _alive(self) -> Link:
        """The spawner; a new one if the old one was killed (its sandboxes are lost, new ones need not be)."""
        with self._lock:
            if self._closed:
                raise _bad_spec("the environment is closed")
            if self._link.lost:
                self._stop()
                self._start()
            return self._link

    def _open(self, spec: Spec, link: Link, source: str) -> Sandbox:
        extra = self._python[0] if spec.image == "host" else ()
        reply, _ = link.ask(
            "create",
            tree=str(spec.tree.resolve()) if spec.tree else "",
            workdir=posixpath.normpath(spec.workdir),
            image=spec.image if spec.image == "host" else str(Path(spec.image).resolve()),
            binds=[[str(bind.source.resolve()), bind.target] for bind in completed(spec.binds + extra)],
            memory_mb=spec.limits.memory_mb,
            disk_mb=spec.limits.disk_mb,
            pids=spec.limits.pids,
            cpus=spec.limits.cpus,
            network=self._exits.of(spec)[0],
            source=source,
            wait_s=900,
        )
        return self._made(spec, link, reply)

    def _reopen(self, spec: Spec, told: dict[str, Any]) -> LocalSandbox:
        return self._made(spec, self._link, told)

    def _made(self, spec: Spec, link: Link, reply: dict[str, Any]) -> LocalSandbox:
        """What the spawner holds, as a sandbox; closed again if it cannot have its network."""
        folder = self._python[1] if spec.image == "host" else ""
        path = {"PATH": f"{folder}:{PATH}"} if folder else {}
        env = {**BASE_ENV, **path, **reply["env"], **spec.env}
        door = str(self.base / f"{reply['box']}.sock"), reply["token"]
        fork = partial(self._open, spec, link)
        sandbox = LocalSandbox(link, reply["box"], reply["workdir"], door, env, fork, reply.get("way", ""))
        self._exits.give(sandbox, spec)
        return sandbox

    def describe(self) -> dict[str, object]:
        cgroups = self._facts["cgroups"]
        isolated = self._isolated
        return {
            "kind": "local",
            "isolation": "bwrap" if isolated else "none",
            "proven": self._proof,
            "network": self._exits.level,
            "cgroups": cgroups,
            "memory": _memory(cgroups, isolated),
            "pids": f"cgroup v{cgroups['pids']}" if "pids" in cgroups else "watched" if isolated else "no limit",
            "cpus": f"cgroup v{cgroups['cpu']}" if "cpu" in cgroups else "no limit",
            "disk": "tmpfs of that size, counted in memory" if isolated else "no limit",
            "seccomp": "deny-list" if self._facts["seccomp"] else "none: not offered here" if isolated else "none",
            "kernel": platform.release(),
        }

    @property
    def outlives(self) -> bool:
        """Whether sandboxes live on when this process is killed."""
        return self._lasting is not None and self._lasting.keep_s > 0

    @property
    def spawner_pid(self) -> int:
        """The process that holds all sandboxes."""
        return self._link.process.pid

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._exits.close()
                self._stop()

    def __enter__(self) -> "LocalEnv":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_local(cfg: schema.Env) -> LocalEnv:
    limits = Limits(cfg.memory_mb, cfg.pids, cfg.cpus, cfg.disk_mb)
    log = Path(cfg.network_log) if cfg.network_log else None
    return LocalEnv(cfg.isolation, cfg.network, limits, allow=tuple(cfg.allow), network_log=log)


def check_paths(spec: Spec, reserved: Collection[str]) -> None:
    """Raises for a work directory that cannot be one, and for names that no kernel takes: those are no `OSError`."""
    path = posixpath.normpath(spec.workdir)
    if not path.startswith("/") or f"/{path.lstrip('/')}" in reserved:
        raise _bad_spec(f"{spec.workdir!r} cannot be a work directory")
    for word in (spec.workdir, spec.image, *(word for bind in spec.binds for word in (str(bind.source), bind.target))):
        with suppress(UnicodeEncodeError):
            if b"\0" not in os.fsencode(word):
                continue
        raise _bad_spec(f"{word!r} cannot be a path")


def _memory(cgroups: dict[str, int], isolated: bool) -> str:
    if "memory" in cgroups:
        return f"cgroup v{cgroups['memory']}, processes watched every 0.1 s"
    return "resident size watched every 0.1 s" if isolated else "no limit"


def _bad_spec(message: str, hint: str = "") -> SandboxError:
    return SandboxError(message, code="client.bad_spec", attributable="client", effect="none", retry="never", hint=hint)
