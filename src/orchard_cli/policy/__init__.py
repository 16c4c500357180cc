"""Whatever answers messages. Nothing heavy is imported before it is used."""

from pathlib import Path
from typing import TYPE_CHECKING

from .. import schema
from ..errors import ConfigError, MissingExtra, installed
from ..trajectory import Blobs
from .policy import Policy, Reply, Sampling

if TYPE_CHECKING:
    from .hf import HfPolicy

__all__ = ["Policy", "Reply", "Sampling", "open_policy", "open_teacher"]


def open_teacher(cfg: schema.Teacher, blobs: Blobs | None = None, images: int = 3) -> Policy:
    """The teacher behind `teacher.kind` http or hf. Scripted teachers are the domain's: ask it. `ConfigError`s.

    blobs: the run's, for conversations with images, of which the teacher is shown the newest `images`.
    """
    if cfg.kind == "http":
        from .http import HttpPolicy

        return HttpPolicy(cfg, blobs=blobs, images=images)
    if cfg.kind == "hf":
        if not cfg.model:
            raise ConfigError("teacher.model is empty", hint="teacher.model=FOLDER or a hub name (teacher.kind=hf)")
        model = schema.Model(kind="hf", path=cfg.model)
        return open_policy(cfg.model, model, name=cfg.model, blobs=blobs, images=images)
    if cfg.kind == "scripted":
        raise ConfigError("the scripted teacher belongs to the domain", hint="teacher=openai, or another teacher")
    raise ConfigError(f"teacher.kind={cfg.kind} is unknown", hint="scripted, http or hf")


def open_policy(
    model_dir: str | Path,
    cfg: schema.Model,
    version: int = 0,
    *,
    name: str = "",
    max_batch: int = 32,
    blobs: Blobs | None = None,
    images: int = 3,
) -> "HfPolicy":
    """The policy in a checkpoint directory (or of a hub name), ready to sample in `cfg.dtype` on `cfg.device`.

    blobs: where the pictures of its conversations lie, of which a model that sees is shown the newest `images`.
    Raises `ConfigError` or `DataError` as `weights.load`, `MissingExtra` without torch.
    """
    need_torch()
    from . import weights
    from .hf import HfPolicy
    from .sight import Sight

    weights.threads(cfg.threads)
    model, tokenizer = weights.load(model_dir, dtype=cfg.dtype, device=cfg.device)
    sight = Sight.of(model, model_dir, blobs, images)
    return HfPolicy(model, tokenizer, name or str(model_dir), version, max_batch=max_batch, copies=False, sight=sight)


def need_torch() -> None:
    """Raises `MissingExtra` where models of our own can neither be trained nor sampled. Imports none of it."""
    for package in ("torch", "transformers", "tokenizers", "safetensors"):
        if not installed(package):
            raise MissingExtra("a model of our own", package, "train")
