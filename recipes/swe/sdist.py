"""The source tree of a `pypi` task: the sdist, fetched by pip, checked, unpacked once and shared read-only.

pip builds metadata of what it downloads, which runs the package's own code; so it is given the hash and refuses
any other file before that. Everything in the cache appears under its final name only when it is complete.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from orchard_cli.errors import SandboxError

MAX_BYTES = 2**30  # unpacked
MAX_FILES = 100_000
LAYOUT = "1"  # part of every tree's name: raise it when trees are made differently


@dataclass(frozen=True)
class Sdist:
    package: str
    version: str
    file: str
    sha256: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Sdist":
        return cls(data["package"], data["version"], data["sdist"], data["sha256"])

    def fetch(self) -> Path:
        """The file in the cache, downloaded if need be. Raises `SandboxError` if it is missing or another."""
        path = folder(f"sdists/{self.sha256[:24]}") / self.file
        with FileLock(folder("locks") / f"sdist-{self.sha256[:24]}.lock"):
            if not path.exists() or _sha256(path) != self.sha256:
                path.unlink(missing_ok=True)
                self._download(path)
        return path

    def tree(self) -> Path:
        """The unpacked tree, committed to a git repository of its own. Never written to again."""
        target = folder("trees") / f"{self.sha256[:24]}-{LAYOUT}"
        if target.exists():
            return target
        archive = self.fetch()
        with FileLock(folder("locks") / f"tree-{target.name}.lock"):
            if not target.exists():
                with tempfile.TemporaryDirectory(dir=folder("trees"), prefix=".new-") as temporary:
                    root = self._unpack(archive, Path(temporary))
                    _commit(root, f"{self.package} {self.version}")
                    root.rename(target)
        return target

    def _download(self, path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as temporary:
            wanted = Path(temporary, "requirements.txt")
            wanted.write_text(f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n")
            done = pip("download", "--no-deps", "--no-binary", self.package, "-d", temporary, "-r", str(wanted))
            got = re.search(r"Got\s+([0-9a-f]{64})", done.stdout)
            if got:
                raise self._error("hash", f"expected sha256 {self.sha256}, got {got[1]}")
            if done.returncode:
                raise self._error("missing", f"pip could not download it: {last_words(done.stdout)}")
            found = Path(temporary, self.file)
            if not found.exists():
                names = ", ".join(sorted(p.name for p in Path(temporary).iterdir() if p != wanted))
                raise self._error("missing", f"the index calls its source {names or 'nothing'}")
            if _sha256(found) != self.sha256:
                raise self._error("hash", f"expected sha256 {self.sha256}, got {_sha256(found)}")
            found.replace(path)

    def _unpack(self, archive: Path, into: Path) -> Path:
        try:
            with tarfile.open(archive) as tar:
                size = count = 0
                for member in tar:
                    size, count = size + member.size, count + 1
                    if size > MAX_BYTES or count > MAX_FILES:
                        raise self._error("unpack", "it is larger than any source distribution should be")
                    tar.extract(member, into, filter="data")
        except (tarfile.TarError, EOFError, OSError, TypeError) as error:
            raise self._error("unpack", f"{type(error).__name__}: {error}") from error
        roots = list(into.iterdir())
        if len(roots) != 1 or not roots[0].is_dir() or roots[0].is_symlink():
            raise self._error("unpack", f"it holds {len(roots)} entries where one folder is expected")
        return roots[0]

    def _error(self, code: str, message: str) -> SandboxError:
        return SandboxError(
            f"{self.package} {self.version} ({self.file}): {message}",
            code=f"sdist_{code}",
            effect="none",
            retry="same" if code == "missing" else "never",
            hint="is the package index reachable? later runs work from the cache" if code == "missing" else "",
        )


def folder(name: str) -> Path:
    """A folder of the cache: `$ORCHARD_CACHE`, or the user's own cache folder."""
    root = os.environ.get("ORCHARD_CACHE")
    path = (Path(root).absolute() if root else user_cache_path("orchard")) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def pip(*arguments: str, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run this interpreter's pip, for another environment if `python` is given; stderr is in stdout."""
    if importlib.util.find_spec("pip") is None:
        raise SandboxError(
            f"{sys.executable} has no pip, which fetches packages for the tasks",
            code="pip_missing",
            attributable="client",
            effect="none",
            retry="never",
            hint="python -m ensurepip",
        )
    where = ["--python", str(python)] if python else []
    options = ["--quiet", "--no-input", "--disable-pip-version-check"]
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "PIP_REQUIRE_VIRTUALENV")}
    return subprocess.run(
        [sys.executable, "-m", "pip", *where, *arguments[:1], *options, *arguments[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
    )


def last_words(output: str) -> str:
    """The last line of a tool's output that says something, at most 300 characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return (errors or ["no output"])[-1][:300]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _commit(root: Path, message: str) -> None:
    """One commit with a fixed author and date, so that an agent may use git; without git there is none."""
    if not shutil.which("git"):
        return
    if (root / ".git").exists():
        shutil.rmtree(root / ".git", ignore_errors=True)
    who = {"NAME": "orchard", "EMAIL": "orchard@localhost", "DATE": "2020-01-01T00:00:00Z"}
    environ = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
    environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ.get("PATH", os.defpath)}
    for command in (["init", "-q", "-b", "main"], ["add", "-A", "-f"], ["commit", "-q", "--no-verify", "-m", message]):
        subprocess.run(["git", "-c", "gc.auto=0", *command], cwd=root, env=environ, check=True, capture_output=True)
