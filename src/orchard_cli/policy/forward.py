"""One forward pass over the rows of `Slots`, through the model's own code: right for every plain decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..trajectory import Shown
from .slots import Slots

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Chunk:
    """New tokens of one row: `ids` stand in columns start, start + 1, …; images: of the whole row, by column."""

    ids: Sequence[int]
    start: int
    images: tuple[Shown, ...] = ()


class Forward(Protocol):
    def __call__(self, chunks: Sequence[Chunk]) -> "Tensor":
        """Write the keys and values of chunk i into row i; float32 logits (B, V) after each row's last token."""
        ...

    def refresh(self) -> None:
        """The model's weights changed."""
        ...


class PlainForward:
    """model(…) for groups of rows with about as many new tokens, padded on the left."""

    def __init__(self, model: "PreTrainedModel", slots: Slots):
        self.model, self.slots = model, slots

    def __call__(self, chunks: Sequence[Chunk]) -> "Tensor":
        import torch

        return torch.cat([self._group(first, chunks[first:last]) for first, last in even_groups(chunks)])

    def refresh(self) -> None:
        pass

    def _group(self, first: int, chunks: Sequence[Chunk]) -> "Tensor":
        import torch

        ids_BT, positions_BT = padded(chunks)
        device = self.model.device
        out = self.model(
            input_ids=ids_BT.to(device),
            attention_mask=self.slots.aim(first, positions_BT.to(device)),
            position_ids=positions_BT.clamp(min=0).to(device),
            past_key_values=self.slots,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits


def padded(chunks: Sequence[Chunk]) -> tuple["Tensor", "Tensor"]:
    """ids and positions (B, T), padded on the left with id 0 and position -1."""
    import torch

    longest = max(len(c.ids) for c in chunks)
    pads = [longest - len(c.ids) for c in chunks]
    ids = [[0] * pad + list(c.ids) for pad, c in zip(pads, chunks, strict=True)]
    at = [[-1] * pad + [*range(c.start, c.start + len(c.ids))] for pad, c in zip(pads, chunks, strict=True)]
    return torch.tensor(ids), torch.tensor(at)


def even_groups(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """[first, last) of neighbouring rows that waste little when padded to the longest of them."""
    groups: list[tuple[int, int]] = []
    used = longest = 0
    for row, size in enumerate(len(c.ids) for c in chunks):
        first = groups[-1][0] if groups else 0
        if groups and max(longest, size) * (row + 1 - first) <= 1.3 * (used + size) + 64:
            groups[-1] = (first, row + 1)
            used, longest = used + size, max(longest, size)
        else:
            groups.append((row, row + 1))
            used = longest = size
    return groups
