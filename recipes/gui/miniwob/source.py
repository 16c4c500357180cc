"""The pages of MiniWoB++: those of the installed package, else of its wheel, fetched by pip once and checked."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from orchard_cli.errors import ConfigError

VERSION = "1.1.0"
FILE = f"miniwob-{VERSION}-py3-none-any.whl"
SHA256 = "297006e84219d56ad037e843527ed773a4a82509dc43b6031ec4a3ad3e3e61d9"


@cache
def pages() -> Path:
    """The folder `html` of MiniWoB++. Raises `ConfigError` if it cannot be had."""
    found = importlib.util.find_spec("miniwob")
    for place in (found.submodule_search_locations or ()) if found else ():
        if (Path(place) / "html/miniwob").is_dir():
            return Path(place) / "html"
    root = os.environ.get("ORCHARD_CACHE")
    cache_folder = Path(root).absolute() if root else user_cache_path("orchard")
    target = cache_folder / "miniwob" / SHA256[:24]
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_suffix(".lock")):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
                _unpack(_download(Path(folder)), Path(folder, "unpacked"))
                Path(folder, "unpacked").rename(target)
    return target / "miniwob/html"


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--only-binary", ":all:", "-d", str(folder), f"miniwob=={VERSION}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    wheel = folder / FILE
    if done.returncode or not wheel.exists():
        why = (done.stderr.strip() or "no such file").splitlines()[-1][:300]
        raise ConfigError(
            f"the pages of MiniWoB++ could not be fetched: {why}",
            hint=f"pip install --no-deps miniwob=={VERSION}; once fetched they are kept",
        )
    got = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if got != SHA256:
        raise ConfigError(f"{FILE} is another file: sha256 {got}, expected {SHA256}", hint="which index is in use?")
    return wheel


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target, [name for name in archive.namelist() if name.startswith("miniwob/html/")])
