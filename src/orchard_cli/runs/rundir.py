"""A run's folder: which stages are done, from which inputs, and whether one may be run (again).

    runs/<domain>/<name>/
        config.yaml          as composed for the last stage that ran
        events.jsonl         what happened when, one line each
        <stage>/done.json    inputs and their hash, outputs and their hashes, a summary; absent while unfinished
        <stage>/inputs.json  the inputs of an unfinished stage, so that it is only resumed with the same ones

A stage's inputs are the sections of the configuration it reads, the outputs of the stages before it, and the
version of the code. Unchanged stages are not run again; changed ones are refused, never overwritten in silence.
"""

import hashlib
import json
import re
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock

from .. import __version__, schema
from ..errors import ConfigError, RunError, disk_error
from ..stages.context import READS, UPSTREAM

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)

# Settings that change how fast, or where, but not what.
_NOT_INPUTS: dict[str, tuple[str, ...]] = {"env": ("concurrency",), "model": ("threads", "device")}
# Settings of a section that one stage reads and another does not.
_NOT_READ: dict[str, dict[str, tuple[str, ...]]] = {
    "sft": {"model": ("rl_lr",)},
    "rl": {"model": ("lr",)},
    "eval": {"model": ("lr", "rl_lr")},
}


class RunDir:
    """One run. Holds a lock while a stage runs, so that two processes never write into it."""

    def __init__(self, root: Path):
        self.root = root
        # a process that is being started may hold our descriptors for a moment, and with them a lock given back
        self._lock = filelock.FileLock(root / ".lock", timeout=1.0)

    @classmethod
    def of(cls, domain: str, config: schema.Config) -> "RunDir":
        if not _NAME.fullmatch(config.run):
            raise ConfigError(
                f"run={config.run} is no name for a run", hint="letters, digits, `.`, `_` and `-`, such as run=first"
            )
        if not config.out:
            raise ConfigError("out is empty", hint="out=FOLDER")
        return cls(Path(config.out) / domain / config.run)

    def lock(self) -> filelock.BaseFileLock:
        """Take the run; raises `RunError` if another process has it."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except filelock.Timeout:
            raise RunError(
                f"{self.root} is in use by another process", hint="wait for it, or choose another name: run=NAME"
            ) from None
        except OSError as error:
            raise disk_error(error, self.root, "written") from error
        return self._lock

    def inputs(self, stage: str, config: schema.Config) -> dict[str, Any]:
        """All that the stage's output depends on."""
        whole = asdict(config)
        chosen = {key: whole[key] for key in READS[stage]}
        for unread in (_NOT_INPUTS, _NOT_READ.get(stage, {})):
            for section, keys in unread.items():
                for key in keys:
                    chosen.get(section, {}).pop(key, None)
        before = {name: self.done(name)["outputs"] for name in UPSTREAM[stage] if self.done(name)}
        return {"config": chosen, "upstream": before, "code": __version__}

    def done(self, stage: str) -> dict[str, Any]:
        """The stage's `done.json`, empty if it has not finished. Raises `RunError` if it is damaged."""
        path = self.root / stage / "done.json"
        found = self._read(path)
        if found and not all(isinstance(found.get(key), dict) for key in ("inputs", "outputs", "summary")):
            raise self._damaged(path, "it lacks inputs, outputs or summary")
        return found

    def begin(self, stage: str, config: schema.Config, *, fresh: bool = False) -> bool:
        """True if the stage is to be run (or resumed), False if it is done and nothing changed.

        fresh: make it anew; what was there is put aside, and goes only when the new stage is done (`refused`).
        """
        folder, inputs = self.root / stage, self.inputs(stage, config)
        if fresh and folder.exists():
            if self._aside(stage).exists():  # of a fresh start that never ended: the older one is the whole one
                shutil.rmtree(folder)
            else:
                folder.rename(self._aside(stage))
        was = self.done(stage).get("inputs") or self._read(folder / "inputs.json")
        begun = folder.exists() and any(p.name != "inputs.json" for p in folder.iterdir())
        if was and begun and digest(was) != digest(inputs):
            raise self._changed(stage, config, was, inputs)
        if self.done(stage):
            return False
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "inputs.json", inputs)
        self.event(stage, "resumed" if was else "started")
        return True

    def refused(self, stage: str) -> None:
        """The stage could not be run with its settings: what `fresh` put aside is there again."""
        if self._aside(stage).exists():
            shutil.rmtree(self.root / stage, ignore_errors=True)
            self._aside(stage).rename(self.root / stage)

    def _aside(self, stage: str) -> Path:
        return self.root / f".{stage}.before"

    def finish(self, stage: str, config: schema.Config, summary: dict[str, Any]) -> None:
        folder = self.root / stage
        record = {
            "inputs": self.inputs(stage, config),
            "outputs": _fingerprints(folder),
            "finished": _now(),
            "summary": summary,
        }
        write_json(folder / "done.json", record)
        (folder / "inputs.json").unlink(missing_ok=True)
        shutil.rmtree(self._aside(stage), ignore_errors=True)
        self.event(stage, "finished", summary=summary)

    def event(self, stage: str, what: str, **more: Any) -> None:
        with (self.root / "events.jsonl").open("a") as file:
            file.write(json.dumps({"time": _now(), "stage": stage, "event": what, **more}) + "\n")

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise self._damaged(path, str(error)) from error
        if not isinstance(found, dict) or not found:
            raise self._damaged(path, "it is no record of a stage")
        return found

    def _damaged(self, path: Path, why: str) -> RunError:
        stage = path.parent.name
        again = f"orchard {self.root.parent.name} {stage} run={self.root.name} --fresh"
        return RunError(f"{path} is damaged: {why}", hint=f"`{again}` makes {stage} anew")

    def _changed(self, stage: str, config: schema.Config, was: dict[str, Any], now: dict[str, Any]) -> RunError:
        changes = "; ".join(_differences(was, now)[:3])
        return RunError(
            f"{self.root / stage} was made from other inputs: {changes}",
            hint=f"give the old settings, choose another name with run=NAME, or add --fresh to make {stage} anew",
        )


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Atomically: readers see the old file or the new one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    part.replace(path)


def _fingerprints(folder: Path) -> dict[str, str]:
    """sha256 of every output file of a stage, by relative path; working files (.state/, .part) are left out."""
    prints = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((".", "done.json", "inputs.json")):
            with path.open("rb") as file:
                prints[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return prints


def _differences(was: Any, now: Any, key: str = "") -> list[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        found = []
        for name in sorted(was.keys() | now.keys()):
            found += _differences(was.get(name), now.get(name), f"{key}.{name}" if key else name)
        return found
    if was == now:
        return []
    if key.startswith("upstream."):
        return [f"{key.removeprefix('upstream.')} changed"]
    return [f"{key.removeprefix('config.')} was {was!r}, is {now!r}"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
