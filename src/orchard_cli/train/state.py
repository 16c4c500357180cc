"""What a killed training run needs to go on to the same bits: weights, optimiser, position, random state."""

import hashlib
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.example import Example
from ..errors import DataError, disk_error
from .optim import Optim


@dataclass(frozen=True)
class TrainerState:
    """Steps done, and `extra` (plain values) of the caller; the tensors went into the model and the optimiser."""

    step: int
    extra: dict[str, Any]


def save(path: Path, model: nn.Module, optim: Optim, *, step: int, key: str, extra: dict[str, Any]) -> None:
    """Write everything to one file, in one move: a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    whole = {
        "step": step,
        "key": key,
        "extra": extra,
        "model": model.state_dict(),
        "optim": optim.state_dict(),
        "rng": torch.get_rng_state(),
    }
    try:
        with part.open("wb") as file:
            torch.save(whole, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as error:
        part.unlink(missing_ok=True)
        refused = error if isinstance(error, OSError) else error.__context__  # torch hides what the disk said
        if isinstance(refused, OSError):
            raise disk_error(refused, path, "written") from error
        raise


def load(path: Path, model: nn.Module, optim: Optim, *, key: str) -> TrainerState | None:
    """Put a saved state back; None if there is none. Raises `DataError` if it is broken or of another run."""
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise DataError(
            f"{path} cannot be read: {str(error).partition('. ')[0]}", hint="delete it to train from the start"
        ) from error
    if state.get("key") != key:
        raise DataError(
            f"{path} belongs to a training run with other data, settings or model",
            hint="delete it to train from the start, or choose another run name",
        )
    model.load_state_dict(state["model"])
    optim.load_state_dict(state["optim"])
    torch.set_rng_state(state["rng"])
    return TrainerState(state["step"], state["extra"])


def run_key(model: nn.Module, examples: Sequence[Example], *settings: object) -> str:
    """Hash of all that decides where a run goes: shapes, every id and weight, settings (by repr)."""
    digest = hashlib.sha256()
    for name, p in model.named_parameters():
        digest.update(f"{name}{tuple(p.shape)}{p.dtype}".encode())
    for e in examples:
        digest.update(repr((e.ids, e.weights, e.advantage)).encode())
        digest.update("".join(image.sha for image in e.images).encode())
    digest.update(repr(settings).encode())
    return digest.hexdigest()
