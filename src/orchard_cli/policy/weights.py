"""Checkpoints: load with errors a person can act on, save so that a crash leaves the old one, name by content."""

import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils.logging import disable_progress_bar

from ..errors import ConfigError, DataError, disk_error
from .sight import FAMILY


def load(
    path: str | Path, *, dtype: torch.dtype | str = torch.float32, device: str = "auto"
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Model and tokenizer of a checkpoint directory or a hub name. Only safetensors; never runs code from there.

    dtype: a torch dtype or its name. device: auto, cpu, cuda, …
    Raises `ConfigError` for what is not there, not a checkpoint or of an unknown architecture, `DataError` for
    broken files.
    """
    source = _source(path)
    disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        sees = AutoConfig.from_pretrained(source).model_type in FAMILY
        kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
        model = kind.from_pretrained(source, dtype=number_format(dtype), use_safetensors=True)
    except SafetensorError as error:
        raise DataError(f"{source}: the weights cannot be read: {error}", hint="is the copy complete?") from error
    except Exception as error:  # noqa: BLE001 - boundary: a foreign directory, and readers that raise anything
        raise _unloadable(source, error) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigError(f"{source} has no fast tokenizer", hint="a tokenizer.json is needed")
    torch.nn.Module.to(model, chosen_device(device))
    return model, tokenizer


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, path: str | Path, processor: Any = None) -> Path:
    """Write a checkpoint directory as a whole: it appears by a rename, and one that stood there goes only then.

    processor: the image processor of a model that sees, which belongs to its checkpoint.
    """
    disable_progress_bar()
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        if processor is not None:
            processor.save_pretrained(made)
        for file in made.iterdir():
            _sync(file)
        made.chmod(0o755)
        _swap(made, path)
    except SafetensorError as error:  # the same, told by another library
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise disk_error(OSError(number, os.strerror(number)), path, "written") from error
    except OSError as error:
        raise disk_error(error, path, "written") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return path


def fingerprint(path: str | Path) -> str:
    """sha256 over the names, formats, shapes and bytes of a checkpoint's tensors, whatever files they lie in."""
    digest = hashlib.sha256()
    files = sorted(Path(path).glob("*.safetensors"))
    if not files:
        raise DataError(f"{path}: no *.safetensors there", hint="a transformers checkpoint directory is needed")
    tensors = sorted((name, file) for file in files for name in _names(file))
    for name, file in tensors:
        with safe_open(file, "pt") as opened:
            tensor = opened.get_tensor(name).contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def threads(count: int = 0) -> int:
    """Let tensor work use `count` threads, 0: one for each core that this process may use. The number set."""
    count = count or len(os.sched_getaffinity(0))
    torch.set_num_threads(count)
    return count


def chosen_device(name: str = "auto") -> torch.device:
    """Raises `ConfigError` for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"model.device={name}: {str(error).splitlines()[0]}", hint="auto, cpu or cuda") from error
    return device


def number_format(name: torch.dtype | str) -> torch.dtype:
    found = getattr(torch, name, None) if isinstance(name, str) else name
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError(f"model.dtype={name} is no number format", hint="float32, bfloat16 or float16")
    return found


def _source(path: str | Path) -> str:
    """A directory that looks like a checkpoint, or what may be a hub name."""
    text = str(path)
    if not text:
        raise ConfigError("model.path is empty", hint="model.path=FOLDER or a hub name such as Qwen/Qwen3-0.6B")
    folder = Path(text).expanduser()
    if folder.is_file():
        raise ConfigError(f"{text} is a file, not a checkpoint directory", hint=f"orchard model import {text}")
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"{text} is not a checkpoint: it has no config.json")
        return str(folder)
    if text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ConfigError(f"there is no checkpoint at {text}")
    return text


def _unloadable(source: str, error: Exception) -> ConfigError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "model type" in str(error) or "Unrecognized" in str(error):
        return ConfigError(
            f"{source}: this transformers does not know the architecture: {said}",
            hint="serve it elsewhere and use teacher.kind=http, or take another model",
        )
    if Path(source).is_dir():
        return ConfigError(f"{source} is not a usable checkpoint: {said}")
    return ConfigError(
        f"cannot get {source} from the model hub: {said}",
        hint="no network? copy the checkpoint here and give model.path=FOLDER",
    )


def _names(file: Path) -> Iterator[str]:
    try:
        with safe_open(file, "pt") as opened:
            yield from opened.keys()
    except SafetensorError as error:
        raise DataError(f"{file}: the weights cannot be read: {error}", hint="is the copy complete?") from error


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _swap(made: Path, path: Path) -> None:
    old = None
    if path.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
        path.rename(old / "old")
    made.rename(path)
    if old:
        shutil.rmtree(old, ignore_errors=True)
