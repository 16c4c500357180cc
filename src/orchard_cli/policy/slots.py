"""The keys and values of many running conversations, in place: one row each, column = position.

transformers' own dynamic cache is copied whole for every token and pads all rows to the longest; at the small
sizes that are sampled on CPUs that was half of the time (`bench/policy.py`). Here nothing moves and a mask hides
what lies beyond a row's end.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_CHUNK = 128


@dataclass(frozen=True)
class Saved:
    """Keys and values of one conversation, each (layers, heads, length, dim)."""

    keys: "Tensor"
    values: "Tensor"

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


class Slots:
    """Two tensors (layers, rows, heads, columns, dim) that grow. The last column is scratch for padding.

    Also stands in for transformers' `Cache` in a forward pass over the rows chosen by `aim`.
    """

    is_compileable = False
    is_sliding = (False,)  # transformers looks through its layers here

    def __init__(self, model: "PreTrainedModel"):
        import torch

        config = model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        empty = torch.zeros(config.num_hidden_layers, 0, heads, _CHUNK, dim, dtype=model.dtype, device=model.device)
        self.keys, self.values = empty, empty.clone()
        self.token_bytes = 2 * config.num_hidden_layers * heads * dim * empty.element_size()
        self._first, self._width = 0, 0
        self._at: tuple[Tensor, Tensor] | None = None

    def reserve(self, rows: int, columns: int) -> None:
        """Room for at least so many rows and columns; what is there stays."""
        _, has_rows, _, has_columns, _ = self.keys.shape
        if rows > has_rows or columns >= has_columns:
            rows = max(has_rows, -(-rows // 8) * 8)
            columns = max(has_columns, -(-(columns + 1) // _CHUNK) * _CHUNK)
            self.keys, self.values = _grown(self.keys, rows, columns), _grown(self.values, rows, columns)

    def aim(self, first: int, positions_BT: "Tensor") -> "Tensor":
        """Let the next forward pass write rows first … first+B at these columns; negative ones are padding.
        Returns the additive mask (B, 1, T, width) that lets each token see its row up to itself.
        """
        import torch

        self._first = first
        self._width = int(positions_BT.max()) + 1
        rows = torch.arange(first, first + len(positions_BT), device=positions_BT.device)[:, None]
        self._at = (rows, torch.where(positions_BT < 0, self.keys.shape[3] - 1, positions_BT))
        return causal_mask(positions_BT, self._width, self.keys.dtype)

    def update(
        self, key_states: "Tensor", value_states: "Tensor", layer_idx: int, *_: Any, **__: Any
    ) -> tuple["Tensor", "Tensor"]:
        """Called by each attention layer with its new keys and values, (B, heads, T, dim)."""
        assert self._at is not None, "aim first"
        rows, columns = self._at
        self.keys[layer_idx][rows, :, columns] = key_states.transpose(1, 2)
        self.values[layer_idx][rows, :, columns] = value_states.transpose(1, 2)
        return self.view(layer_idx, self._first, self._first + len(key_states), self._width)

    def view(self, layer: int, first: int, last: int, width: int) -> tuple["Tensor", "Tensor"]:
        return self.keys[layer, first:last, :, :width], self.values[layer, first:last, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._width

    def save(self, row: int, length: int) -> Saved:
        """A copy of a row's first `length` columns."""
        return Saved(self.keys[:, row, :, :length].clone(), self.values[:, row, :, :length].clone())

    def load(self, row: int, saved: Saved) -> None:
        self.keys[:, row, :, : saved.keys.shape[2]] = saved.keys
        self.values[:, row, :, : saved.values.shape[2]] = saved.values

    def move(self, source: int, target: int, length: int) -> None:
        self.keys[:, target, :, :length] = self.keys[:, source, :, :length]
        self.values[:, target, :, :length] = self.values[:, source, :, :length]

    def drop(self) -> None:
        """Give the memory back."""
        self.keys = self.keys[:, :0, :, :_CHUNK].clone()
        self.values = self.values[:, :0, :, :_CHUNK].clone()


def causal_mask(positions_BT: "Tensor", width: int, dtype: Any) -> "Tensor":
    """Additive mask (B, 1, T, width): a token at position p sees columns 0 … p; padding (negative) sees column 0."""
    import torch

    columns = torch.arange(width, device=positions_BT.device)
    hidden = columns > positions_BT.clamp(min=0)[:, None, :, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)


def _grown(old: "Tensor", rows: int, columns: int) -> "Tensor":
    layers, old_rows, heads, old_columns, dim = old.shape
    new = old.new_zeros(layers, rows, heads, columns, dim)
    new[:, :old_rows, :, :old_columns] = old
    return new
