"""Sandboxes whose agent lives inside, by one of the runtimes. Proven at start, like every other tier."""

import os
import platform
import posixpath
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ... import __version__
from ...errors import ConfigError, SandboxError
from ..agent.closed import clear
from ..local import leftovers
from ..local.lasting import Lasting
from ..local.local import BASE_ENV, DEFAULT, RESERVED, check_paths
from ..local.sandbox import LocalSandbox
from ..network.exits import Exits
from ..sandbox import Limits, Sandbox, Spec
from . import probe
from .alive import twin
from .heirs import Heir, heirs, written
from .holding import FILE, Left, settle
from .image import Image
from .keeper import Keeper, Kept, to_keep
from .maker import Maker
from .making import Make, Making, Runtime, bad_spec, failed

GREET_S = 60.0
OPEN = "env.network=open reaches all public addresses, by a proxy"


class ContainedEnv:
    """See `Env`. Raises `ConfigError` when the isolation asked for cannot be proven here.

    With `lasting`, sandboxes outlive a crash of this process: see `left`.
    """

    def __init__(
        self,
        make: Make,
        hint: str,
        network: str = "none",
        limits: Limits = DEFAULT,
        *,
        allow: tuple[str, ...] = (),
        network_log: Path | None = None,
        lasting: Lasting | None = None,
    ):
        if network == "host":
            raise ConfigError("this tier never has the machine's own network: not env.network=host", hint=OPEN)
        self._limits, self._exits = limits, Exits(network, allow, isolated=True, log=network_log)
        self._lock = threading.Lock()
        self._count, self._closed = 0, False
        leftovers.sweep()
        self._lasting, self.left = replace(lasting, name=FILE) if lasting else None, tuple[Heir, ...]()
        try:
            self._holding, self.base, left = settle(self._lasting, {"tier": make.name, "version": __version__})
        except BaseException:
            self._exits.close()
            raise
        self.keeper = Keeper(self.base, self._holding)
        self._maker = Maker(self.base)
        self._runtime: Runtime | None = None
        try:
            self._runtime = make(self.base)
            self._inherit(self._runtime, left)
            if self._maker.lay_out() and self._holding and self._lasting:
                self._lasting.remember(self.base)
            self._proof = probe.prove(self, self._runtime.name, hint)
            self._ls = self._proof.pop("ls")
        except BaseException:
            self._leave(left) if left else self.close()
            raise

    def _leave(self, left: list[Left]) -> None:
        """As if we had died: what has outlived one driver outlives one that cannot begin, too."""
        self._closed = True
        self.keeper.leave()
        for _, passage in left:
            passage.close()
        self._exits.close()
        if self._holding is not None:
            self._holding.leave()

    def _inherit(self, runtime: Runtime, left: list[Left]) -> None:
        """Take over what a driver before us left, and clear away what it had only begun to make."""
        folders = list(self.base.glob(f"{self.base.name}-*"))
        self.left = heirs(self.keeper, runtime, left, self._hand_out)
        for folder in folders:
            self._count = max(self._count, int(folder.name.rpartition("-")[2]))
            if folder.name not in self.keeper:
                with suppress(SandboxError):
                    runtime.wipe(folder.name)
                clear(str(folder))

    def check(self, spec: Spec) -> None:
        """Raises what `open` refuses before anything is made."""
        self._exits.check(spec)
        check_paths(spec, (*RESERVED, "/run", "/tmp"))

    def open(self, spec: Spec) -> Sandbox:
        self.check(spec)
        limits = spec.limits if spec.limits != DEFAULT else self._limits
        spec = replace(spec, limits=limits, workdir=posixpath.normpath(spec.workdir))
        return self._open(spec, self._name())

    def _name(self) -> str:
        with self._lock:
            if self._closed:
                raise bad_spec("the environment is closed")
            self._count += 1
            return f"{self.base.name}-{self._count}"

    def _open(self, spec: Spec, name: str) -> Sandbox:
        making, before, image = self._maker.making(spec, name)
        return self._start(spec, making, before, image)

    def _start(self, spec: Spec, making: Making, before: Path | None, image: Image) -> Sandbox:
        assert self._runtime is not None
        folder, token = making.folder, os.urandom(16).hex()
        folder.mkdir()
        try:
            held = self._runtime.start(making)
        except BaseException:
            clear(str(folder))
            raise
        try:
            if not held.greet(token, GREET_S):
                raise failed(f"the agent does not start in the sandbox: {held.why()}")
            return self._introduce(spec, to_keep(making, held, token, before, image))
        except BaseException:
            held.end()
            clear(str(folder))
            raise

    def _fork(self, spec: Spec, box: str) -> Sandbox:
        """Another one made from what `box` was made from, whatever that name means by now, and its changes."""
        origin, name = self.keeper.find(box), self._name()
        twin = self._start(spec, origin.making.again(name, self.base / name), origin.before, origin.image)
        try:
            same = [mount.target for mount in origin.making.mounts if not mount.writable]
            self.keeper.carry(box, name, same)
        except BaseException:
            twin.close()
            raise
        return twin

    def _twin(self, spec: Spec, box: str) -> Sandbox:
        """A fork of `box` with all that runs in it."""
        assert self._runtime is not None
        origin, name = self.keeper.find(box), self._name()
        making = origin.making.again(name, self.base / name)
        making.folder.mkdir()
        try:
            held, token = twin(self._runtime, origin, making, lambda: self._keep(origin))
        except BaseException:
            clear(str(making.folder))
            raise
        return self._introduce(spec, to_keep(making, held, token, origin.before, origin.image))

    def _keep(self, kept: Kept) -> None:
        """Beyond our own end, if sandboxes are to outlive us."""
        if self._holding and self._runtime:
            told = self._runtime.told(kept.making.name)
            self._holding.ask("keep", kept.held.passage, **written(kept, told))

    def _introduce(self, spec: Spec, kept: Kept) -> Sandbox:
        try:
            self._keep(kept)
            self.keeper.add(kept)
        except BaseException:
            kept.held.end()
            kept.gone()
            raise
        return self._hand_out(spec, kept)

    def _hand_out(self, spec: Spec, kept: Kept) -> Sandbox:
        name, env = kept.making.name, {**BASE_ENV, **kept.image.env, **spec.env}
        fork = partial(self._fork, spec)
        live = partial(self._twin, spec) if self._runtime and self._runtime.freezes else None
        sandbox = LocalSandbox(self.keeper, name, spec.workdir, (kept.held.dial, kept.token), env, fork, live=live)
        self._exits.give(sandbox, spec)
        return sandbox

    def describe(self) -> dict[str, object]:
        assert self._runtime is not None
        own: dict[str, object] = dict(self._runtime.facts())
        if not self._ls:
            own["weaker"] = probe.LS
        own["fork"] = "files, or with all that runs" if self._runtime.freezes else "files"
        same = {"kind": "local", "isolation": self._runtime.name, "proven": self._proof, "network": self._exits.level}
        return {**same, **own, "kernel": platform.release()}

    @property
    def outlives(self) -> bool:
        """Whether sandboxes live on when this process is killed."""
        return self._holding is not None

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.keeper.close()
        self._exits.close()
        if self._runtime is not None:
            with suppress(SandboxError):
                self._runtime.close()
        if self._holding is not None:
            self._holding.close()
        if self._lasting is not None:
            self._lasting.forget()
        with suppress(OSError):
            leftovers.remove(self.base)

    def __enter__(self) -> "ContainedEnv":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
