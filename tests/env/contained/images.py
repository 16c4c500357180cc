"""A small image in the format of `docker save`, made from this machine's own Python."""

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

PROGRAMS = ("python3", "bash", "cat", "ls", "touch")
Entry = tuple[str, bytes | str | None]  # a name, and its bytes, where it points to, or None for a directory


def layer(*entries: Entry) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def save(path: Path, layers: list[bytes], env: dict[str, str]) -> None:
    config = {"config": {"Env": [f"{name}={value}" for name, value in env.items()]}}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": names}]
    files = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w") as tar:
        for name, data in {**dict(zip(names, layers, strict=True)), **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def base_layer(folder: Path) -> bytes:
    """What an agent and a shell need, copied from this machine."""
    wanted = {Path("/lib64/ld-linux-x86-64.so.2")}
    for name in PROGRAMS:
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found is not None
        wanted.add(Path(found))
        wanted |= libraries(Path(found))
    for module in Path("/usr/lib").glob("python3.*/lib-dynload/*.so"):
        wanted |= libraries(module)
    for path in wanted:
        target = folder / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), target)
    for library in Path("/usr/lib").glob("python3.*"):
        ignore = shutil.ignore_patterns("__pycache__", "test", "dist-packages", "site-packages", "idlelib", "config-3*")
        shutil.copytree(library, folder / str(library).lstrip("/"), ignore=ignore, symlinks=True, dirs_exist_ok=True)
    for name in ("tmp", "proc", "dev", "sys", "etc", "run", "testbed"):
        (folder / name).mkdir()
    (folder / "testbed/kept.txt").write_text("kept\n")
    (folder / "testbed/hidden.txt").write_text("hidden\n")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(folder, ".")
    return out.getvalue()


def libraries(program: Path) -> set[Path]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return {Path(word) for word in said.split() if word.startswith("/")}
