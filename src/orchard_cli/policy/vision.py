"""A vision-language model's forward pass over tokens whose pictures are known by place, for sampling and training.

transformers finds pictures by their token id, and a policy may sample that id too; here the record says where they
are. The vision tower is never trained: what it makes of a picture is computed without gradient, and remembered.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..trajectory import Shown
from .forward import Chunk, even_groups, padded
from .sight import Sight
from .slots import Slots

if TYPE_CHECKING:
    from torch import Tensor, nn

_MEMORY = 1 << 28


@dataclass(frozen=True)
class Features:
    """What the tower makes of a picture: features_ND for its N tokens, and as many again for each deepstack layer."""

    tokens_ND: "Tensor"
    deep: "tuple[Tensor, ...]"

    @property
    def nbytes(self) -> int:
        return self.tokens_ND.nbytes * (1 + len(self.deep))


class Vision:
    """The pictures of one model (of `sight.FAMILY`). Remembers features of at most `memory` bytes."""

    def __init__(self, model: Any, sight: Sight, *, memory: int = _MEMORY):
        self.model, self.sight, self.memory = model, sight, memory
        self._known: OrderedDict[str, Features] = OrderedDict()
        self._used = 0

    def forget(self) -> None:
        """The model's weights changed."""
        self._known.clear()
        self._used = 0

    def features(self, sha: str) -> Features:
        """Raises `DataError` as `Sight.picture` does."""
        import torch

        if sha not in self._known:
            picture = self.sight.picture(sha)
            with torch.no_grad():
                out = self.model.base_model.get_image_features(
                    picture.patches_PD.to(self.model.device), torch.tensor([picture.grid], device=self.model.device)
                )
            made = Features(
                torch.cat(list(out.pooler_output)), tuple(torch.cat(list(d)) for d in out.deepstack_features)
            )
            self._known[sha] = made
            self._used += made.nbytes
            while self._used > self.memory and len(self._known) > 1:
                self._used -= self._known.popitem(last=False)[1].nbytes
        self._known.move_to_end(sha)
        return self._known[sha]

    def positions(self, start: int, stop: int, images: Sequence[Shown]) -> "Tensor":
        """Rotary positions (3, stop − start) of a row's columns. A picture takes as many as its longer side has
        tokens (2409.12191, section 2.1): its tokens differ in row and column, what follows goes on behind it.
        """
        import torch

        parts: list[Tensor] = []
        at = column = first = 0  # first: the column of the first of `parts`
        for image in images:
            if image.start >= stop:
                break
            _, rows, columns = self.sight.grid(image.sha)
            text = image.start - column
            column, after = image.start + image.length, at + text + max(rows, columns)
            if column > start:
                parts += [torch.arange(at, at + text).expand(3, -1), at + text + _cells(rows, columns)]
            else:
                first = column
            at = after
        parts.append(torch.arange(at, at + max(0, stop - column)).expand(3, -1))
        return torch.cat(parts, 1)[:, start - first : stop - first]

    def hidden(
        self, ids_BT: "Tensor", positions_3BT: "Tensor", images: Sequence[Sequence[Shown]], **options: Any
    ) -> "Tensor":
        """The last layer's output (B, T, D); images: of each row, by the columns of ids_BT, in order."""
        import torch

        model = self.model
        embedded_BTD = model.get_input_embeddings()(ids_BT)
        seen_BT = torch.zeros(ids_BT.shape, dtype=torch.bool)
        found: list[Features] = []
        for row, shown in enumerate(images):
            for image in shown:
                seen_BT[row, image.start : image.start + image.length] = True
                found.append(self.features(image.sha))
        if found:
            seen_BT = seen_BT.to(ids_BT.device)
            tokens_ND = torch.cat([f.tokens_ND for f in found]).to(embedded_BTD.dtype)
            embedded_BTD = embedded_BTD.masked_scatter(seen_BT[..., None], tokens_ND)
            options["visual_pos_masks"] = seen_BT
            options["deepstack_visual_embeds"] = [
                torch.cat(level) for level in zip(*(f.deep for f in found), strict=True)
            ]
        body = model.base_model.language_model
        out: Tensor = body(inputs_embeds=embedded_BTD, position_ids=positions_3BT, **options).last_hidden_state
        return out

    def rows(self, ids_BT: "Tensor", images: Sequence[Sequence[Shown]]) -> "Tensor":
        """`hidden` of whole rows from column 0 on, padded on the right, without a cache."""
        import torch

        length = ids_BT.shape[1]
        positions = torch.stack([self.positions(0, length, shown) for shown in images], 1)
        return self.hidden(ids_BT, positions.to(ids_BT.device), images, use_cache=False)


class VisionForward:
    """A `Forward`: as `PlainForward`, with pictures."""

    def __init__(self, vision: Vision, slots: Slots):
        self.vision, self.slots = vision, slots

    def __call__(self, chunks: Sequence[Chunk]) -> "Tensor":
        import torch

        return torch.cat([self._group(first, chunks[first:last]) for first, last in even_groups(chunks)])

    def refresh(self) -> None:
        self.vision.forget()

    def _group(self, first: int, chunks: Sequence[Chunk]) -> "Tensor":
        import torch

        model = self.vision.model
        ids_BT, columns_BT = padded(chunks)
        positions_3BT = torch.zeros(3, *ids_BT.shape, dtype=torch.long)
        images = []
        for row, chunk in enumerate(chunks):
            stop, pad = chunk.start + len(chunk.ids), ids_BT.shape[1] - len(chunk.ids)
            positions_3BT[:, row, pad:] = self.vision.positions(chunk.start, stop, chunk.images)
            new = [i for i in chunk.images if i.start >= chunk.start]
            images.append([Shown(i.sha, i.start - chunk.start + pad, i.length) for i in new])
        out = self.vision.hidden(
            ids_BT.to(model.device),
            positions_3BT.to(model.device),
            images,
            attention_mask=self.slots.aim(first, columns_BT.to(model.device)),
            past_key_values=self.slots,
            use_cache=True,
        )
        logits: Tensor = model.get_output_embeddings()(out[:, -1]).float()
        return logits


def freeze(model: "nn.Module") -> None:
    """Take a vision tower and its projector, if the model has them, out of training."""
    tower = getattr(getattr(model, "base_model", None), "visual", None)
    if tower is not None:
        tower.requires_grad_(False)


def _cells(rows: int, columns: int) -> "Tensor":
    """Frame (always 0), row and column of each token of a picture, (3, rows · columns)."""
    import torch

    down, across = torch.arange(rows), torch.arange(columns)
    row, column = torch.meshgrid(down, across, indexing="ij")
    return torch.stack([torch.zeros_like(row), row, column]).flatten(1)
