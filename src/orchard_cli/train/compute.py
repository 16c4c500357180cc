"""The forward pass that training needs: log-probabilities of trained tokens only, in a fast number format.

Weights are float32. With `bfloat16` a second copy of them does the work and its gradients are added to the
float32 ones after each micro-batch: on two cores with AMX this is nearly twice as fast as float32, and faster than
autocast, which converts every weight again at each use.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..errors import DataError, RunError
from ..policy.sight import Sight
from ..policy.vision import Vision
from .attention import PLAIN, plain_fits
from .rows import Rows

CHUNK = 8192  # trained tokens whose logits are held at once


class Compute:
    """A model made ready for training. `model` keeps the float32 weights; its gradients are what counts."""

    def __init__(
        self,
        model: nn.Module,
        *,
        precision: str = "bfloat16",
        temperature: float = 1.0,
        sight: Sight | None = None,
    ):
        """precision: float32 or bfloat16. temperature: divides the logits, as sampling did. sight: for a model that
        sees; its vision tower is used as it is, see `policy/vision.py`.
        """
        self.model = model
        self.temperature = temperature
        self.worker: Any = model
        if precision == "bfloat16":
            self.worker = copy.deepcopy(model).to(torch.bfloat16)
        self.device = next(model.parameters()).device
        self._pairs = list(zip(model.parameters(), self.worker.parameters(), strict=True))
        self.vision = Vision(self.worker, sight) if sight else None
        self.worker.train()
        self.refresh()

    def refresh(self) -> None:
        """Copy the weights to the working copy; call after each optimiser step."""
        if self.worker is not self.model:
            with torch.no_grad():
                for master, work in self._pairs:
                    work.copy_(master)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of `loss` to the float32 gradients."""
        loss.backward()
        if self.worker is self.model:
            return
        for master, work in self._pairs:
            if work.grad is None:
                continue
            if master.grad is None:
                master.grad = work.grad.float()
            else:
                master.grad.add_(work.grad)
            work.grad = None

    def logprobs(self, rows: Rows) -> Tensor:
        """log π of the trained tokens, shape (N,), float32; differentiable. Raises `DataError` for pictures that the
        model does not see, or not as the tokens say.
        """
        if self.vision:
            for row, images, name in zip(rows.ids_BT.tolist(), rows.images, rows.names, strict=True):
                self.vision.sight.check(row, images, f"{name}: ")
            hidden = self.vision.rows(rows.ids_BT, rows.images)
        elif any(rows.images):
            raise DataError("the examples show pictures, the model reads text alone", hint="take a model that sees")
        else:
            with _attention(self.worker, rows.ids_BT.shape[1]):
                hidden = self._body()(input_ids=rows.ids_BT, use_cache=False).last_hidden_state
        hidden_NH = hidden.flatten(0, 1)[rows.at_N]
        if len(hidden_NH) <= CHUNK:
            return self._head(hidden_NH, rows.targets_N)
        parts = zip(hidden_NH.split(CHUNK), rows.targets_N.split(CHUNK), strict=True)
        return torch.cat([checkpoint(self._head, h, t, use_reentrant=False) for h, t in parts])

    def _body(self) -> Any:
        body = self.worker.base_model
        if body is self.worker:
            raise RunError(f"{type(self.worker).__name__} is not a causal language model with a head")
        return body

    def _head(self, hidden_NH: Tensor, targets_N: Tensor) -> Tensor:
        """In float32: bfloat16 logits would lose more of a log-probability than an update moves it."""
        head = self.worker.get_output_embeddings()
        bias = None if head.bias is None else head.bias.float()
        logits = F.linear(hidden_NH.float(), head.weight.float(), bias)
        if cap := getattr(self.worker.config, "final_logit_softcapping", None):
            logits = cap * torch.tanh(logits / cap)
        return -F.cross_entropy(logits / self.temperature, targets_N, reduction="none")


class _attention:
    """Matrix-product attention for the time of one forward pass, where it fits; see `attention.py`."""

    def __init__(self, worker: Any, length: int):
        self.config = worker.config
        self.before = self.config._attn_implementation
        self.use = plain_fits(worker, length)

    def __enter__(self) -> None:
        if self.use:
            self.config._attn_implementation = PLAIN

    def __exit__(self, *exc: object) -> None:
        if self.use:
            self.config._attn_implementation = self.before
