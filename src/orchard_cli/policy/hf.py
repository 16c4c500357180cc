"""The policy that we train: a transformers model that answers many conversations at once, token-exact."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..errors import DataError, PolicyError, RunError
from ..trajectory import Message, Usage
from .chat import Chat
from .encoder import Tokens
from .engine import Engine
from .policy import Reply, Sampling
from .request import Request, Sampled
from .sight import Sight
from .vision import Vision

_MASK64 = 2**64 - 1


class HfPolicy:
    """Samples replies with their ids and log-probs; `update` hands it new weights.

    The model is copied (unless `copies=False`) to `dtype` and `device`; its output layer always computes in float32,
    since log-probs from bfloat16 logits are off by whole percents. A reply depends on the conversation, the weights
    and `Sampling` alone: draws come from (seed, turn), neighbours in the batch matter only through float rounding.
    A model that sees is given its `sight`; to others a conversation with images is a `ConfigError`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        name: str,
        version: int = 0,
        *,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        max_batch: int = 32,
        memory: int = 1 << 28,
        copies: bool = True,
        sight: Sight | None = None,
    ):
        self.name = name
        self.chat = Chat(tokenizer, sight)
        model = copy.deepcopy(model) if copies else model
        self._model = _ready(model, device or model.device, dtype or model.dtype)
        config = model.config.get_text_config()
        self._longest = int(getattr(config, "max_position_embeddings", None) or 2**31)
        self._vocab = int(config.vocab_size)
        self._stops = self.chat.stops | _stops(model)
        vision = Vision(self._model, sight) if sight else None
        self._engine = Engine(self._model, version=version, max_batch=max_batch, memory=memory, vision=vision)

    def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling,
        previous: Reply | None = None,
    ) -> Reply:
        turn = sum(m.role == "assistant" for m in messages)
        prompt, fresh = self._prompt(messages, tools, previous, turn)
        sampled = self._sample(prompt, sampling, turn)
        stopped = sampled.ids[-1] in self._stops
        said = sampled.ids[:-1] if stopped else sampled.ids
        calls = sum(len(m.tool_calls) for m in messages)
        message = self.chat.read(said, tools=bool(tools), first_call=calls)
        finish = "tool_calls" if message.tool_calls else "stop"
        return Reply(
            message,
            finish if stopped else "length",
            Usage(1, len(prompt.ids), len(sampled.ids)),
            prompt.ids,
            sampled.ids,
            sampled.logprobs,
            prompt.origins,
            sampled.version,
            len(messages),
            prompt.images,
            fresh,
        )

    def _prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], previous: Reply | None, turn: int
    ) -> tuple[Tokens, bool]:
        """The prompt, and whether it begins anew. Pictures that cannot be used are a `PolicyError` of this turn."""
        try:
            longer = self.chat.prompt(messages, tools, previous)
            prompt = self.chat.window(longer)
            if prompt.images and self.chat.sight:
                self.chat.sight.check(prompt.ids, prompt.images)
        except DataError as error:
            raise PolicyError(
                f"before turn {turn + 1}: {error}", code="picture", effect="none", hint=error.hint
            ) from error
        return prompt, prompt is not longer and previous is not None

    def _sample(self, prompt: Tokens, sampling: Sampling, turn: int) -> Sampled:
        ids, limit = prompt.ids, min(sampling.max_context, self._longest)
        self._check(ids, limit)
        random = np.random.default_rng([sampling.seed & _MASK64, turn])
        request = Request(
            prompt=ids,
            known=(len(ids) - len(prompt.origins) or len(ids)) - 1,
            draws=random.random(min(sampling.max_tokens, limit - len(ids))),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            stops=self._stops,
            images=prompt.images,
        )
        return self._engine.sample(request)

    def _check(self, ids: tuple[int, ...], limit: int) -> None:
        if len(ids) >= limit:
            raise PolicyError(
                f"the prompt has {len(ids)} tokens, the context only {limit}",
                code="context_overflow",
                attributable="model",
                effect="none",
                retry="never",
            )
        if max(ids) >= self._vocab:
            raise PolicyError(
                f"the tokenizer has a token {max(ids)}, the model of {self.name} only {self._vocab}",
                code="vocabulary",
                attributable="client",
                effect="none",
                retry="never",
                hint="tokenizer and model do not belong together",
            )

    def update(self, weights: PreTrainedModel | Mapping[str, Tensor], version: int) -> None:
        """Take over new weights once no reply is under way; later replies carry `version`. Copies; blocks.

        Raises `RunError` if a tensor is missing or has another shape.
        """
        given = weights.state_dict() if isinstance(weights, PreTrainedModel) else weights
        own = self._model.state_dict()
        pairs = [(name, tensor, _matching(name, tensor, given, self._model)) for name, tensor in own.items()]

        def take() -> None:
            for _, tensor, new in pairs:
                tensor.copy_(new)
            self._engine.version = version

        self._engine.between(take)

    def close(self) -> None:
        self._engine.close()


def _ready(model: PreTrainedModel, device: str | torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The model for sampling: in `dtype` but for its output layer, which is float32 and has its own weights."""
    old = model.get_output_embeddings()
    if dtype != torch.float32 and isinstance(old, nn.Linear):
        rows, columns = old.weight.shape
        head = nn.Linear(columns, rows, bias=old.bias is not None, dtype=torch.float32)
        head.load_state_dict(old.state_dict())
        head.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        nn.Module.to(model, dtype=dtype)
        model.set_output_embeddings(head)
    nn.Module.to(model, device=device)
    return model.eval().requires_grad_(False)


def _stops(model: PreTrainedModel) -> frozenset[int]:
    config = model.generation_config
    ids = config.eos_token_id if config else None
    return frozenset(ids if isinstance(ids, list) else [ids]) - {None}


def _matching(name: str, own: Tensor, given: Mapping[str, Tensor], model: PreTrainedModel) -> Tensor:
    """The given tensor for one of ours; checkpoints leave out an output layer that is tied to the embeddings."""
    new = given.get(name)
    if new is None and name == "lm_head.weight" and model.config.get_text_config().tie_word_embeddings:
        new = next((t for n, t in given.items() if n.endswith("embed_tokens.weight")), None)
    if new is None or new.shape != own.shape:
        found = "nothing" if new is None else tuple(new.shape)
        raise RunError(f"new weights do not fit: `{name}` should be {tuple(own.shape)}, found {found}")
    return new
