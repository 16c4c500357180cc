"""What contained sandboxes of one environment are made from, and what all of them share."""

import tempfile
from pathlib import Path

from ..agent.pack import pack
from ..local.binds import completed, own_python
from ..local.local import PATH
from ..local.spawner import roots
from ..sandbox import Spec
from .image import Image, Images
from .layers import place
from .making import INSIDE, Making, Mount, bad_spec


class Maker:
    """`base` is the environment's folder."""

    def __init__(self, base: Path):
        self._base, self._python = base, own_python()
        self._images = Images(Path(tempfile.mkdtemp(prefix="images-", dir=base)))

    def lay_out(self) -> bool:
        """Once for all drivers of that folder; False if another did."""
        base = self._base
        if (base / "agent").exists():
            return False
        (base / "skeleton").mkdir()
        roots.build_skeleton(base / "skeleton", network=False)
        (base / "agent").mkdir()
        (base / "agent" / "agent.pyz").write_bytes(pack())
        (base / "empty").mkdir()
        return True

    def _image(self, name: str) -> Image:
        if name != "host":
            return self._images.find(name)
        folder = self._python[1]
        env = {"PATH": f"{folder}:{PATH}"} if folder else {}
        return Image(self._base / "skeleton", env, f"{folder or '/usr/bin'}/python3")

    def making(self, spec: Spec, name: str) -> tuple[Making, Path | None, Image]:
        """And the host directory that its work directory is made from. Raises `SandboxError` for a bad spec."""
        host = spec.image == "host"
        image = self._image(spec.image)
        root = image.root
        inside = _inside(root, spec.workdir)
        before = spec.tree.resolve() if spec.tree else inside or self._base / "empty"
        if not before.is_dir():
            raise bad_spec(f"{before}: no such directory")
        extra = self._python[0] if host else ()
        mounts = [Mount(Path("/", system), f"/{system}") for system in roots.system_directories() if host]
        if spec.tree or inside is None:
            mounts.append(Mount(before, spec.workdir, writable=True))
        for bind in completed(spec.binds + extra):
            if not bind.source.exists():
                raise bad_spec(f"{bind.source}: no such file or directory")
            mounts.append(Mount(bind.source.resolve(), bind.target))
        mounts.append(Mount(self._base / "agent", INSIDE))
        argv = [image.python, "-I", "-S", "-E", f"{INSIDE}/agent.pyz", "--sandbox", name, "--workdir", spec.workdir]
        return Making(name, self._base / name, root, mounts, spec.workdir, spec.limits, argv), before, image


def _inside(root: Path, workdir: str) -> Path | None:
    """The directory of that name in the image. Its links mean the image's own files, never those of this machine."""
    try:
        return place(root, workdir.split("/"), make=False)
    except ValueError:
        return None
