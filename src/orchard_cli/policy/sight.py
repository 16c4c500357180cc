"""Pictures for a vision-language model of ours: from blobs to patches, and the tokens that stand for them.

Only transformers' image processors for Pillow are used, so that torchvision is not needed. A conversation shows at
most `keep` pictures (`harness.images`). Since a prompt of ours extends the one before it id for id, a picture cannot
leave it: where the newest ones are too many, the conversation goes on in a sequence (and a ledger) of its own, in
which words stand for the older pictures and all that was said before is context.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, DataError, MissingExtra, installed
from ..trajectory import Blobs, Shown
from .encoder import Tokens

if TYPE_CHECKING:
    from torch import Tensor

FAMILY = ("qwen3_vl", "qwen3_vl_moe")
_MOST_PIXELS = 1 << 26  # a screenshot has one to eight million; a bomb decodes to more than this


@dataclass(frozen=True)
class Picture:
    """patches_PD: float32, one row for each patch of the grid (frames, rows, columns); `tokens` stand for it."""

    patches_PD: "Tensor"
    grid: tuple[int, int, int]
    tokens: int


class Sight:
    """What one checkpoint makes of pictures. Thread-safe; the most recent `memory` bytes of patches are remembered.

    processor: its image processor. blobs: where pictures lie. keep: how many of them a sequence shows at most.
    """

    def __init__(self, config: Any, processor: Any, blobs: Blobs | None, keep: int = 3, *, memory: int = 1 << 28):
        self.processor, self.blobs, self.keep = processor, blobs, keep
        self.image_id: int = config.image_token_id
        self._fences = (config.vision_start_token_id, config.vision_end_token_id)
        self._merge: int = config.vision_config.spatial_merge_size
        self._memory = memory
        self._grids: dict[str, tuple[int, int, int]] = {}
        self._known: OrderedDict[str, Picture] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, model: Any, folder: str | Path, blobs: Blobs | None, keep: int = 3) -> "Sight | None":
        """That of the checkpoint `folder` (or hub name) from which `model` came; None if it reads text alone."""
        if model.config.model_type not in FAMILY:
            return None
        return cls(model.config, load_processor(folder), blobs, keep)

    def picture(self, sha: str) -> Picture:
        """Raises `DataError` for a blob that is missing, damaged or no picture."""
        with self._lock:
            if sha in self._known:
                self._known.move_to_end(sha)
                return self._known[sha]
            made = self._known[sha] = self._made(sha)
            self._grids[sha] = made.grid
            used = sum(p.patches_PD.nbytes for p in self._known.values())
            while used > self._memory and len(self._known) > 1:
                used -= self._known.popitem(last=False)[1].patches_PD.nbytes
            return made

    def grid(self, sha: str) -> tuple[int, int, int]:
        """(frames, rows, columns) of a picture in tokens."""
        frames, rows, columns = self._grids.get(sha) or self.picture(sha).grid
        return frames, rows // self._merge, columns // self._merge

    def shown(self, tokens: Tokens, images: Sequence[str], turn: int) -> Tokens:
        """Each placeholder of a rendered text grows to as many as its picture needs, all of the environment.

        Raises `ConfigError` if there is not one for each picture: the chat template leaves some out.
        """
        found = [at for at, token in enumerate(tokens.ids) if token == self.image_id]
        if len(found) != len(images):
            raise ConfigError(
                f"the chat template shows {len(found)} of {len(images)} pictures",
                hint="take the chat template of the vision-language checkpoint itself",
            )
        grown, last = Tokens((), ""), 0
        for at, sha in zip(found, images, strict=True):
            count = self.picture(sha).tokens
            grown += Tokens(tokens.ids[last:at], tokens.origins[last:at])
            grown += Tokens((self.image_id,) * count, "e" * count, (Shown(sha, 0, count, turn),))
            last = at + 1
        return grown + Tokens(tokens.ids[last:], tokens.origins[last:])

    def without_older(self, tokens: Tokens, words: Tokens) -> Tokens:
        """Only the newest `keep` pictures; `words` in place of each older one and the tokens that enclose it."""
        older = len(tokens.images) - self.keep
        cut, last = Tokens((), ""), 0
        for number, image in enumerate(tokens.images):
            start, end = image.start, image.start + image.length
            if number < older:
                start -= start > last and tokens.ids[start - 1] == self._fences[0]
                end += end < len(tokens.ids) and tokens.ids[end] == self._fences[1]
            cut += Tokens(tokens.ids[last:start], tokens.origins[last:start])
            if number < older:
                cut += Tokens(words.ids, "e" * len(words.ids))
            else:
                shown = (Shown(image.sha, 0, image.length, image.turn),)
                cut += Tokens(tokens.ids[start:end], tokens.origins[start:end], shown)
            last = end
        return cut + Tokens(tokens.ids[last:], tokens.origins[last:])

    def check(self, ids: Sequence[int], images: Sequence[Shown], where: str = "") -> None:
        """Raises `DataError` that names turn and picture if tokens and pixels do not agree: every picture must have
        exactly as many placeholders, in one piece, as rows · columns / merge² of its patches.
        """
        for number, image in enumerate(images, 1):
            name = f"{where}turn {image.turn}, picture {number} ({image.sha[:12]})"
            try:
                need = self.picture(image.sha).tokens
            except DataError as error:
                raise DataError(f"{name}: {error}", hint=error.hint) from error
            end = image.start + image.length
            fair = 0 <= image.start < end <= len(ids) and set(ids[image.start : end]) == {self.image_id}
            if not fair or need != image.length:
                held = image.length if fair else sum(i == self.image_id for i in ids[max(0, image.start) : end])
                raise DataError(
                    f"{name}: {held} placeholder tokens, but its pixels make {need}",
                    hint="was the image processor of the checkpoint changed?",
                )

    def _made(self, sha: str) -> Picture:
        if self.blobs is None:
            raise DataError("this model was opened without the run's pictures")
        patches, grid = _patches(self.processor, self.blobs.get(sha), sha)
        count = grid[0] * grid[1] * grid[2]
        if len(patches) != count:
            raise DataError(f"picture {sha}: {len(patches)} patches for a grid of {count}")
        return Picture(patches, grid, count // self._merge**2)


def load_processor(folder: str | Path) -> Any:
    """The image processor of a checkpoint, in its form for Pillow. Raises `ConfigError` if there is none."""
    if not installed("PIL"):
        raise MissingExtra("a model that sees pictures", "pillow", "train")
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    try:
        return Qwen2VLImageProcessorPil.from_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder} has no image processor: {str(error).splitlines()[0]}",
            hint="a vision-language checkpoint has a preprocessor_config.json",
        ) from error


def unseen(name: str) -> ConfigError:
    """For pictures in a conversation with a model that reads text alone."""
    return ConfigError(
        f"{name} reads text alone, but the conversation has pictures",
        hint="let the domain show text (domain.view=axtree), or take a model that sees, such as model=tiny_vl",
    )


def _patches(processor: Any, data: bytes, sha: str) -> "tuple[Tensor, tuple[int, int, int]]":
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
            if opened.width * opened.height > _MOST_PIXELS:
                raise DataError(f"picture {sha} has {opened.width} x {opened.height} pixels, too many to be looked at")
            made = processor([opened.convert("RGB")], return_tensors="pt")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"blob {sha} is no picture that can be read: {error}") from error
    frames, rows, columns = made["image_grid_thw"][0].tolist()
    return made["pixel_values"].float(), (frames, rows, columns)
