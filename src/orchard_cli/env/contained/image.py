"""What `Spec.image` may name: `host`, a directory, an archive (`docker save`, OCI, or a plain tar of a root), or an
image that an engine of this machine holds; an archive also as `PATH@sha256:HEX`, and an engine's image by its digest.
A directory comes of it, once; nothing is pulled from anywhere.
"""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .layers import unpack
from .making import bad_spec

ENGINES, DEADLINE_S = ("podman", "docker"), 900.0
CONDA = ("opt/miniconda3/bin/python3", "opt/conda/bin/python3")
PYTHONS = ("usr/bin/python3", "usr/local/bin/python3", "bin/python3", *CONDA)
PIN = "@sha256:"
PLACES = ":/usr/bin:/usr/local/bin"


@dataclass(frozen=True)
class Image:
    root: Path
    env: Mapping[str, str] = field(default_factory=dict)  # what it says that its programs want

    known: str = ""  # where python3 is, if it does not lie in the root itself

    @property
    def python(self) -> str:
        """For the agent. Raises `SandboxError` where there is none."""
        if self.known:
            return self.known
        own = [f"{folder.strip('/')}/python3" for folder in self.env.get("PATH", "").split(":") if folder]
        for path in (*PYTHONS, *own):
            if os.path.lexists(self.root / path):  # a link means something else out here
                return f"/{path}"
        raise bad_spec("the image has no python3, which the agent of a sandbox needs", hint="Python 3.9 or newer")


class Images:
    """Those that have been made ready below `folder`."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._ready: dict[str, Image] = {}
        self._count = itertools.count()
        self._turns: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def find(self, name: str) -> Image:
        """Raises `SandboxError` for what cannot be had."""
        path, digest = pin(name)
        if path.is_dir():
            check(path, digest)
            return Image(path.resolve())
        with self._lock:
            turn = self._turns.setdefault(name, threading.Lock())
        with turn:  # of this image alone: another may take minutes
            if name not in self._ready:
                if path.is_file():
                    check(path, digest)
                self._ready[name] = self._unpacked(path) if path.is_file() else self._held(name)
            return self._ready[name]

    def _held(self, name: str) -> Image:
        if name.startswith(("-", "/", ".")):
            raise bad_spec(f"there is no image {name}")
        for engine in ENGINES:
            program = shutil.which(engine, path=os.environ.get("PATH", "") + PLACES)
            if program and _quiet([program, "image", "inspect", name]):
                self._folder.mkdir(exist_ok=True)
                archive = self._folder / f"{next(self._count)}.tar"
                try:
                    if _quiet([program, "save", "-o", str(archive), name]):
                        return self._unpacked(archive)
                finally:
                    archive.unlink(missing_ok=True)
        hint = f"a directory, an archive, or pull it first: {ENGINES[0]} pull {name}"
        raise bad_spec(f"no engine of this machine holds the image {name}", hint=hint)

    def _unpacked(self, archive: Path) -> Image:
        root = self._folder / f"{next(self._count)}.root"
        root.mkdir(parents=True)
        try:
            with tarfile.open(archive) as tar:
                names = set(tar.getnames())
                layers, config = _plan(tar, names)
                for layer in layers:
                    unpack(tar, layer, root)
                if not layers:
                    unpack(tar, None, root)
            pairs = [word.partition("=") for word in config.get("config", {}).get("Env") or ()]
        except Exception as error:  # noqa: BLE001 - hostile bytes, on which each parser fails in its own way
            shutil.rmtree(root, ignore_errors=True)
            raise bad_spec(f"{archive} is no image: {type(error).__name__}: {error}") from error
        return Image(root, {name: value for name, _, value in pairs})


def pin(name: str) -> tuple[Path, str | None]:
    """The path in `PATH@sha256:HEX`, and the digest; None: there is none."""
    path, at, digest = name.partition(PIN)
    return Path(path), digest if at else None


def check(path: Path, digest: str | None) -> None:
    """Raises `SandboxError` where an archive is not the one that was meant; without a digest any is."""
    if digest is None:
        return
    if not path.is_file():
        raise bad_spec(f"{path} is no archive, and nothing else has a digest of its own", hint="tar it first")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise bad_spec(f"{path} is not what it should be: its sha256 is {found}", hint=f"expected {digest}")


def _plan(tar: tarfile.TarFile, names: set[str]) -> tuple[list[str], dict[str, Any]]:
    """(names of the layers, from the lowest up; the image's configuration); no layers: the archive itself is a root."""
    if "manifest.json" in names:
        manifest = _json(tar, "manifest.json")[0]
        return list(manifest["Layers"]), _json(tar, manifest["Config"])
    if "index.json" in names and "oci-layout" in names:
        manifest = _json(tar, _blob(_json(tar, "index.json")["manifests"][0]))
        if "manifests" in manifest:
            manifest = _json(tar, _blob(manifest["manifests"][0]))
        return [_blob(layer) for layer in manifest["layers"]], _json(tar, _blob(manifest["config"]))
    return [], {}


def _blob(entry: Mapping[str, Any]) -> str:
    kind, _, digest = str(entry["digest"]).partition(":")
    return f"blobs/{kind}/{digest}"


def _json(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return json.loads(file.read(1 << 24))


def _quiet(argv: list[str]) -> bool:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
