"""Sandboxes whose agent lives inside, by one of the runtimes. Proven at start, like every other tier."""

import os
import platform
import posixpath
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ... import __version__
from ...errors import ConfigError, SandboxError
from ..agent.pack import pack
from ..local import leftovers
from ..local.binds import completed, own_python
from ..local.lasting import Lasting
from ..local.local import BASE_ENV, DEFAULT, PATH, RESERVED
from ..local.sandbox import LocalSandbox
from ..local.spawner import roots
from ..network.exits import Exits
from ..sandbox import Limits, Sandbox, Spec
from . import probe
from .alive import twin
from .heirs import Heir, heirs, written
from .holding import FILE, Left, settle
from .image import Image, Images
from .keeper import Keeper, Kept, to_keep
from .making import INSIDE, Make, Making, Mount, Runtime, bad_spec, failed

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
        self._python = own_python()
        self._count, self._closed = 0, False
        self._lock = threading.Lock()
        leftovers.sweep()
        self._lasting, self.left = replace(lasting, name=FILE) if lasting else None, tuple[Heir, ...]()
        try:
            self._holding, self.base, left = settle(self._lasting, {"tier": make.name, "version": __version__})
        except BaseException:
            self._exits.close()
            raise
        self.keeper = Keeper(self.base, self._holding)
        self._images = Images(Path(tempfile.mkdtemp(prefix="images-", dir=self.base)))
        self._runtime: Runtime | None = None
        try:
            self._runtime = make(self.base)
            self._inherit(self._runtime, left)
            self._lay_out()
            self._proof = probe.prove(self, self._runtime.name, hint)
            self._ls = self._proof.pop("ls")
        except BaseException:
            self.close()
            raise

    def _inherit(self, runtime: Runtime, left: list[Left]) -> None:
        """Take over what a driver before us left, and clear away what it had only begun to make."""
        folders = list(self.base.glob(f"{self.base.name}-*"))
        self.left = heirs(self.keeper, runtime, left, self._hand_out)
        for folder in folders:
            self._count = max(self._count, int(folder.name.rpartition("-")[2]))
            if folder.name not in self.keeper:
                with suppress(SandboxError):
                    runtime.wipe(folder.name)
                shutil.rmtree(folder, ignore_errors=True)

    def _lay_out(self) -> None:
        if (self.base / "agent").exists():
            return
        (self.base / "skeleton").mkdir()
        roots.build_skeleton(self.base / "skeleton", network=False)
        (self.base / "agent").mkdir()
        (self.base / "agent" / "agent.pyz").write_bytes(pack())
        (self.base / "empty").mkdir()
        if self._holding and self._lasting:
            self._lasting.remember(self.base)

    def open(self, spec: Spec) -> Sandbox:
        limits = spec.limits if spec.limits != DEFAULT else self._limits
        self._exits.of(spec)  # refused before anything is made
        if not spec.workdir.startswith("/") or posixpath.normpath(spec.workdir) in (*RESERVED, "/run", "/tmp"):
            raise bad_spec(f"{spec.workdir} cannot be a work directory")
        spec = replace(spec, limits=limits, workdir=posixpath.normpath(spec.workdir))
        return self._open(spec, self._name())

    def _name(self) -> str:
        with self._lock:
            if self._closed:
                raise bad_spec("the environment is closed")
            self._count += 1
            return f"{self.base.name}-{self._count}"

    def _open(self, spec: Spec, name: str) -> Sandbox:
        assert self._runtime is not None
        folder = self.base / name
        folder.mkdir()
        try:
            making, before, image = self._making(spec, name, folder)
            held = self._runtime.start(making)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        token = os.urandom(16).hex()
        try:
            if not held.greet(token, GREET_S):
                raise failed(f"the agent does not start in the sandbox: {held.why()}")
            return self._introduce(spec, to_keep(making, held, token, before, image))
        except BaseException:
            held.end()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _twin(self, spec: Spec, box: str) -> Sandbox:
        """A fork of `box` with all that runs in it."""
        assert self._runtime is not None
        origin, name = self.keeper.find(box), self._name()
        making = replace(origin.making, name=name, folder=self.base / name)
        making.folder.mkdir()
        try:
            held, token = twin(self._runtime, origin, making, lambda: self._keep(origin))
        except BaseException:
            shutil.rmtree(making.folder, ignore_errors=True)
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
        except BaseException:
            kept.held.end()
            kept.gone()
            raise
        self.keeper.add(kept)
        return self._hand_out(spec, kept)

    def _hand_out(self, spec: Spec, kept: Kept) -> Sandbox:
        def fork(box: str) -> Sandbox:
            twin = self.open(spec)
            try:
                self.keeper.carry(box, twin.id.partition("-")[2], self._shown(spec))
            except BaseException:
                twin.close()
                raise
            return twin

        name, env = kept.making.name, {**BASE_ENV, **kept.image.env, **spec.env}
        live = partial(self._twin, spec) if self._runtime and self._runtime.freezes else None
        sandbox = LocalSandbox(self.keeper, name, spec.workdir, (kept.held.dial, kept.token), env, fork, live=live)
        self._exits.give(sandbox, spec)
        return sandbox

    def _image(self, name: str) -> Image:
        if name != "host":
            return self._images.find(name)
        folder = self._python[1]
        env = {"PATH": f"{folder}:{PATH}"} if folder else {}
        return Image(self.base / "skeleton", env, f"{folder or '/usr/bin'}/python3")

    def _shown(self, spec: Spec) -> list[str]:
        """What is read-only, and the same in every sandbox of that spec."""
        systems = [f"/{name}" for name in roots.system_directories()] if spec.image == "host" else []
        return [*systems, *(bind.target for bind in spec.binds)]

    def _making(self, spec: Spec, name: str, folder: Path) -> tuple[Making, Path | None, Image]:
        """And the host directory that its work directory is made from."""
        host = spec.image == "host"
        image = self._image(spec.image)
        root = image.root
        inside = root / spec.workdir.lstrip("/")
        before = spec.tree.resolve() if spec.tree else inside if inside.is_dir() else self.base / "empty"
        if not before.is_dir():
            raise bad_spec(f"{before}: no such directory")
        extra = self._python[0] if host else ()
        mounts = [Mount(Path("/", system), f"/{system}") for system in roots.system_directories() if host]
        if spec.tree or not inside.is_dir():
            mounts.append(Mount(before, spec.workdir, writable=True))
        for bind in completed(spec.binds + extra):
            if not bind.source.exists():
                raise bad_spec(f"{bind.source}: no such file or directory")
            mounts.append(Mount(bind.source.resolve(), bind.target))
        mounts.append(Mount(self.base / "agent", INSIDE))
        argv = [image.python, "-I", "-S", "-E", f"{INSIDE}/agent.pyz", "--sandbox", name, "--workdir", spec.workdir]
        return Making(name, folder, root, mounts, spec.workdir, spec.limits, argv), before, image

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
