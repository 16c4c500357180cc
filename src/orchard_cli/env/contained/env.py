"""Sandboxes whose agent lives inside, by one of the runtimes. Proven at start, like every other tier."""

import os
import platform
import posixpath
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...errors import ConfigError
from ..agent.pack import pack
from ..channel import Channel
from ..local import leftovers
from ..local.binds import completed, own_python
from ..local.local import BASE_ENV, DEFAULT, PATH, RESERVED
from ..local.sandbox import LocalSandbox
from ..local.spawner import roots
from ..network.exits import Exits
from ..sandbox import Limits, Sandbox, Spec
from . import probe
from .alive import twin
from .held import Held
from .image import Image, Images
from .keeper import Keeper, Kept, gone
from .making import INSIDE, Making, Mount, Runtime, bad_spec, failed

GREET_S = 60.0
OPEN = "env.network=open reaches all public addresses, by a proxy"
Make = Callable[[Path], Runtime]


class ContainedEnv:
    """See `Env`. Raises `ConfigError` when the isolation asked for cannot be proven here."""

    def __init__(
        self,
        make: Make,
        hint: str,
        network: str = "none",
        limits: Limits = DEFAULT,
        *,
        allow: tuple[str, ...] = (),
        network_log: Path | None = None,
    ):
        if network == "host":
            raise ConfigError("this tier never has the machine's own network: not env.network=host", hint=OPEN)
        self._limits, self._exits = limits, Exits(network, allow, isolated=True, log=network_log)
        self._python = own_python()
        self._count, self._closed = 0, False
        self._lock = threading.Lock()
        leftovers.sweep()
        self.base = Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
        self.keeper, self._images = Keeper(self.base), Images(self.base / "images")
        self._runtime: Runtime | None = None
        try:
            self._runtime = make(self.base)
            self._lay_out()
            self._proof = probe.prove(self, self._runtime.name, hint)
            self._ls = self._proof.pop("ls")
        except BaseException:
            self.close()
            raise

    def _lay_out(self) -> None:
        (self.base / "skeleton").mkdir()
        roots.build_skeleton(self.base / "skeleton", network=False)
        (self.base / "agent").mkdir()
        (self.base / "agent" / "agent.pyz").write_bytes(pack())
        (self.base / "empty").mkdir()

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
            making, before = self._making(spec, name, folder)
            held = self._runtime.start(making)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        token = os.urandom(16).hex()
        try:
            if not held.greet(token, GREET_S):
                raise failed(f"the agent does not start in the sandbox: {held.why()}")
            return self._introduce(spec, making, held, token, before)
        except BaseException:
            held.end()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _twin(self, spec: Spec, box: str) -> Sandbox:
        """A fork of `box` with all that runs in it."""
        assert self._runtime is not None
        kept, name = self.keeper.find(box), self._name()
        making = replace(kept.making, name=name, folder=self.base / name)
        making.folder.mkdir()
        try:
            held, token = twin(self._runtime, kept, making)
        except BaseException:
            shutil.rmtree(making.folder, ignore_errors=True)
            raise
        return self._introduce(spec, making, held, token, kept.before, kept.made)

    def _introduce(
        self, spec: Spec, making: Making, held: Held, token: str, before: Path | None, made: float = 0.0
    ) -> Sandbox:
        name, image = making.name, self._image(spec.image)
        channel = Channel(held.dial, name, token, lambda effect: gone(held, effect))
        tidy = partial(shutil.rmtree, making.folder, ignore_errors=True)
        self.keeper.add(name, Kept(making, held, token, channel, before, image.python, tidy, made or time.time()))

        def fork(box: str) -> Sandbox:
            twin = self.open(spec)
            try:
                self.keeper.carry(box, twin.id.partition("-")[2], self._shown(spec))
            except BaseException:
                twin.close()
                raise
            return twin

        env = {**BASE_ENV, **image.env, **spec.env}
        live = partial(self._twin, spec) if self._runtime and self._runtime.freezes else None
        sandbox = LocalSandbox(self.keeper, name, spec.workdir, (held.dial, token), env, fork, live=live)
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

    def _making(self, spec: Spec, name: str, folder: Path) -> tuple[Making, Path | None]:
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
        return Making(name, folder, root, mounts, spec.workdir, spec.limits, argv), before

    def describe(self) -> dict[str, object]:
        assert self._runtime is not None
        own: dict[str, object] = dict(self._runtime.facts())
        if not self._ls:
            own["weaker"] = probe.LS
        own["fork"] = "files, or with all that runs" if self._runtime.freezes else "files"
        same = {"kind": "local", "isolation": self._runtime.name, "proven": self._proof, "network": self._exits.level}
        return {**same, **own, "kernel": platform.release()}

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.keeper.close()
        self._exits.close()
        if self._runtime is not None:
            self._runtime.close()
        with suppress(OSError):
            leftovers.remove(self.base)

    def __enter__(self) -> "ContainedEnv":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
