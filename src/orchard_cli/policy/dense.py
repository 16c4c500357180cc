"""The same forward pass written out for the Llama family, for CPUs: several times faster at small sizes.

There transformers' layers spend more time between operations than in them. Here tokens of all rows lie flat, so
one running batch takes single new tokens and whole prompts together, without padding but in attention.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .forward import Chunk, even_groups, padded
from .slots import Slots, causal_mask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_FAMILY = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True)
class _Layer:
    before: "Tensor"  # norm before attention
    qkv: "Tensor"
    qkv_bias: "Tensor | None"
    qk_norm: "Tensor | None"  # (query and key heads, dim)
    out: "Tensor"
    between: "Tensor"  # norm before the feed-forward layer
    gate_up: "Tensor"
    down: "Tensor"


@dataclass(frozen=True)
class _Block:
    """Rows whose attention runs together: where their tokens lie among the flat ones, and their mask."""

    first: int
    last: int
    width: int
    index_BT: "Tensor"
    real_BT: "Tensor | None"  # None: no padding
    mask: "Tensor"  # (B, 1, groups * T, width)


class DenseForward:
    """A `Forward`. Call `refresh` when the model's weights changed: joined projections are copies."""

    def __init__(self, model: "PreTrainedModel", slots: Slots):
        config = model.config
        self.model, self.slots = model, slots
        self.eps = float(config.rms_norm_eps)
        self.heads, self.kv_heads, self.dim = config.num_attention_heads, slots.keys.shape[2], slots.keys.shape[4]
        self._turns: tuple[Tensor, Tensor] | None = None
        self.refresh()

    @staticmethod
    def fits(model: "PreTrainedModel") -> bool:
        """A Llama-like decoder on a CPU, small enough for overhead to matter."""
        config = model.config
        return bool(
            config.model_type in _FAMILY
            and model.device.type == "cpu"
            and model.num_parameters() < 1_000_000_000
            and config.hidden_act == "silu"
            and not getattr(config, "mlp_bias", False)
            and model.model.layers[0].self_attn.o_proj.bias is None
            and getattr(model.model.rotary_emb, "rope_type", "default") in ("default", "linear", "llama3", "yarn")
        )

    def refresh(self) -> None:
        self.layers = [self._layer(block) for block in self.model.model.layers]
        self._embeddings: Tensor = self.model.get_input_embeddings().weight  # type: ignore[assignment]

    def _layer(self, block: Any) -> _Layer:
        import torch

        attn, mlp = block.self_attn, block.mlp
        projections = (attn.q_proj, attn.k_proj, attn.v_proj)
        normed = hasattr(attn, "q_norm")
        return _Layer(
            before=block.input_layernorm.weight,
            qkv=torch.cat([p.weight for p in projections]),
            qkv_bias=torch.cat([p.bias for p in projections]) if attn.q_proj.bias is not None else None,
            qk_norm=torch.stack([attn.q_norm.weight] * self.heads + [attn.k_norm.weight] * self.kv_heads)
            if normed
            else None,
            out=attn.o_proj.weight,
            between=block.post_attention_layernorm.weight,
            gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            down=mlp.down_proj.weight,
        )

    def __call__(self, chunks: Sequence[Chunk]) -> "Tensor":
        """Tokens of all rows flat, N; see `Forward`."""
        import torch
        from torch.nn.functional import embedding, linear, silu

        ends = list(accumulate(len(c.ids) for c in chunks))
        blocks = self._blocks(chunks, ends)
        # oneDNN compiles a kernel for each new number of tokens: fill up with some that land in the scratch column
        fill = -ends[-1] % (32 if ends[-1] < 512 else 256)
        rows_N = torch.tensor([row for row, c in enumerate(chunks) for _ in c.ids] + [0] * fill)
        columns_N = torch.tensor([c.start + i for c in chunks for i in range(len(c.ids))] + [-1] * fill)
        ids_N = torch.tensor([i for c in chunks for i in c.ids] + [0] * fill)
        turn = self._turn(columns_N)
        x = embedding(ids_N, self._embeddings)
        for number, layer in enumerate(self.layers):
            qkv = linear(self._norm(x, layer.before), layer.qkv, layer.qkv_bias)
            queries = self._attend_to(number, qkv, layer, turn, rows_N, columns_N)
            x = x + linear(self._attention(number, queries, blocks), layer.out)
            gate, up = linear(self._norm(x, layer.between), layer.gate_up).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer.down)
        last = x[torch.tensor(ends) - 1]
        head = self.model.get_output_embeddings()
        logits: torch.Tensor = head(self._norm(last, self.model.model.norm.weight)).float()
        return logits

    def _attend_to(
        self,
        number: int,
        qkv: "Tensor",
        layer: _Layer,
        turn: tuple["Tensor", "Tensor"],
        rows_N: "Tensor",
        columns_N: "Tensor",
    ) -> "Tensor":
        """Store the new keys and values; the queries (N, heads, dim), turned to their positions."""
        qkv = qkv.view(len(qkv), -1, self.dim)
        qk = qkv[:, : self.heads + self.kv_heads]
        if layer.qk_norm is not None:
            qk = self._norm(qk, layer.qk_norm)
        cosine, sine = turn
        qk = qk * cosine + qk.roll(self.dim // 2, -1) * sine
        self.slots.keys[number][rows_N, :, columns_N] = qk[:, self.heads :]
        self.slots.values[number][rows_N, :, columns_N] = qkv[:, self.heads + self.kv_heads :]
        return qk[:, : self.heads]

    def _norm(self, x: "Tensor", weight: "Tensor") -> "Tensor":
        """Root mean square norm in float32; torch's own takes twice as many operations on a CPU."""
        import torch

        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return x * torch.rsqrt(length * length / x.shape[-1] + self.eps).to(x.dtype) * weight

    def _attention(self, number: int, queries: "Tensor", blocks: Sequence[_Block]) -> "Tensor":
        """Query heads that share a key head stand behind each other as if they were more tokens."""
        from torch.nn.functional import scaled_dot_product_attention

        out = queries.new_zeros(len(queries), self.heads * self.dim)
        groups = self.heads // self.kv_heads
        for block in blocks:
            b, t = block.index_BT.shape
            q = queries[block.index_BT].view(b, t, self.kv_heads, groups, self.dim)
            q = q.permute(0, 2, 3, 1, 4).reshape(b, self.kv_heads, groups * t, self.dim)
            k, v = self.slots.view(number, block.first, block.last, block.width)
            seen = scaled_dot_product_attention(q, k, v, attn_mask=block.mask)
            seen = seen.view(b, self.kv_heads, groups, t, self.dim).permute(0, 3, 1, 2, 4).reshape(b, t, -1)
            # a padded block may have as many places as there are tokens with their filling: it is not flat for that
            if len(blocks) == 1 and block.real_BT is None and b * t == len(out):
                return seen.reshape(b * t, -1)
            if block.real_BT is None:
                out[block.index_BT] = seen
            else:
                out[block.index_BT[block.real_BT]] = seen[block.real_BT]
        return out

    def _blocks(self, chunks: Sequence[Chunk], ends: Sequence[int]) -> list[_Block]:
        import torch

        blocks = []
        for first, last in even_groups(chunks):
            _, positions_BT = padded(chunks[first:last])
            t = positions_BT.shape[1]
            index_BT = torch.tensor(ends[first:last])[:, None] - t + torch.arange(t)
            real_BT = positions_BT >= 0
            width = int(positions_BT.max()) + 1
            mask = causal_mask(positions_BT, width, self.slots.keys.dtype)
            mask = mask.repeat(1, 1, self.heads // self.kv_heads, 1)
            whole = bool(real_BT.all())
            blocks.append(_Block(first, last, width, index_BT.clamp(min=0), None if whole else real_BT, mask))
        return blocks

    def _turn(self, columns_N: "Tensor") -> tuple["Tensor", "Tensor"]:
        """Cosine and sine of each token's position, (N, 1, dim); the sine's first half negative, for `roll`."""
        import torch

        if self._turns is None or int(columns_N.max()) >= len(self._turns[0]):
            columns = torch.arange(2 * int(columns_N.max()) + 256)[None]
            cosine, sine = self.model.model.rotary_emb(self.layers[0].qkv[:1], columns)
            half = self.dim // 2
            self._turns = cosine[0], torch.cat([-sine[0, :, :half], sine[0, :, half:]], -1)
        return self._turns[0][columns_N, None], self._turns[1][columns_N, None]
