"""A policy behind any OpenAI-compatible chat endpoint. What goes wrong there: `http_errors.py`."""

import ipaddress
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from .. import schema
from ..errors import ConfigError, MissingExtra
from ..trajectory import Blobs, Message, Usage
from .http_errors import Endpoint, malformed, translated
from .pictures import Pictures
from .policy import Reply, Sampling
from .wire import from_wire

_FINISH = {"length": "length", "tool_calls": "tool_calls", "function_call": "tool_calls"}


class HttpPolicy:
    """Sends the conversation to `cfg.base_url` and reads the answer.

    tokens: ask for log-probs and, as vLLM gives them, token ids (`return_token_ids`). Ids are kept only where they
    are whole and continue the previous reply's; endpoints without them serve just as well. blobs: where the images
    of messages lie; the newest `images` of them are sent.
    Raises `ConfigError` for a missing model, address or key, `MissingExtra` without the `openai` package.
    """

    def __init__(self, cfg: schema.Teacher, *, tokens: bool = False, blobs: Blobs | None = None, images: int = 3):
        if not cfg.base_url:
            raise ConfigError("teacher.base_url is empty", hint="teacher.base_url=http://HOST:PORT/v1")
        if not cfg.model:
            raise ConfigError("teacher.model is empty", hint="teacher.model=NAME, as the endpoint calls it")
        try:
            import openai
        except ImportError:
            raise MissingExtra("teacher.kind=http", "openai", "http") from None
        self.name = cfg.model
        self.cfg = cfg
        key = _key(cfg)
        self._endpoint = Endpoint(cfg, key)
        self._tokens = tokens
        self._pictures = Pictures(blobs, images)
        ours = (urlsplit(cfg.base_url).hostname or "").endswith("openai.com")  # it refuses the name all others know
        self._limit = "max_completion_tokens" if ours else "max_tokens"
        self._client = openai.OpenAI(base_url=cfg.base_url, api_key=key, timeout=cfg.timeout_s, max_retries=cfg.retries)

    def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling,
        previous: Reply | None = None,
    ) -> Reply:
        body: dict[str, Any] = {
            "model": self.cfg.model,
            "messages": self._pictures.wire(messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._limit: sampling.max_tokens,
            "seed": sampling.seed % 2**31,
        }
        if tools:
            body["tools"] = list(tools)
        if self._tokens:
            body |= {"logprobs": True, "return_token_ids": True}
        with translated(self._endpoint):
            raw = self._client.post("/chat/completions", body=body, cast_to=dict[str, Any])
        return self._read(raw, len(messages), previous)

    def _read(self, raw: Any, n_messages: int, previous: Reply | None) -> Reply:
        try:
            choice = raw["choices"][0]
            message = from_wire(choice["message"])
            usage = self._usage(raw.get("usage") or {})
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise malformed(self._endpoint, raw) from error
        finish = _FINISH.get(choice.get("finish_reason"), "stop")
        if finish == "tool_calls" and not message.tool_calls:
            finish = "stop"
        prompt_ids, ids, logprobs = _token_fields(raw, choice)
        known = _sampled(previous)
        if prompt_ids is None or ids is None or prompt_ids[: len(known)] != known:
            return Reply(message, finish, usage, n_messages=n_messages)
        # The endpoint rendered the prompt, so template and content cannot be told apart here: neither is trained.
        origins = "e" * (len(prompt_ids) - len(known))
        return Reply(message, finish, usage, prompt_ids, ids, logprobs, origins, n_messages=n_messages)

    def _usage(self, usage: dict[str, Any]) -> Usage:
        prompt, completion = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        cost = (prompt * self.cfg.price_in + completion * self.cfg.price_out) / 1e6
        return Usage(1, prompt, completion, cost)

    def close(self) -> None:
        self._client.close()


def _token_fields(
    raw: dict[str, Any], choice: dict[str, Any]
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[float, ...] | None]:
    """Prompt ids, sampled ids and log-probs if the endpoint gave all three and they fit together, else Nones."""
    prompt_ids, ids = raw.get("prompt_token_ids"), choice.get("token_ids")
    content = (choice.get("logprobs") or {}).get("content")
    if not (isinstance(prompt_ids, list) and isinstance(ids, list) and isinstance(content, list)):
        return None, None, None
    logprobs = [part.get("logprob") if isinstance(part, dict) else None for part in content]
    numbers = tuple(float(p) for p in logprobs if isinstance(p, float | int))
    if len(ids) != len(content) or len(ids) != len(numbers) or any(type(i) is not int for i in [*prompt_ids, *ids]):
        return None, None, None
    return tuple(prompt_ids), tuple(ids), numbers


def _sampled(previous: Reply | None) -> tuple[int, ...]:
    if previous is None or previous.prompt_ids is None or previous.ids is None:
        return ()
    return previous.prompt_ids + previous.ids


def _key(cfg: schema.Teacher) -> str:
    key = os.environ.get(cfg.api_key_env, "").strip() if cfg.api_key_env else ""
    if key:
        return key
    if _loopback(cfg.base_url):
        return "none"
    if not cfg.api_key_env:
        raise ConfigError("teacher.api_key_env is empty", hint="name the environment variable that holds the key")
    raise ConfigError(
        f"no key for the teacher: the environment variable {cfg.api_key_env} is not set",
        hint=f"export {cfg.api_key_env}=… or name another variable with teacher.api_key_env",
    )


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
