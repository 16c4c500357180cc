"""Between messages and tokens, so that a conversation only ever grows: what was sampled is never tokenised again.

A continued prompt is `previous.prompt_ids + previous.ids` plus what the chat template writes after an assistant's
text: the rest of its turn, the new messages, the opening of the next reply. That piece comes from rendering the
new messages behind a stub reply, so it does not matter whether the template would rewrite earlier turns (Qwen3
drops their thinking; prime-rl#1334): the ids extend exactly, by construction. `keeps_history` tells which case it is.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, PolicyError
from ..trajectory import Message
from .encoder import Encoder, Tokens
from .pictures import LEFT_OUT
from .policy import Reply
from .reply_text import parse, write
from .sight import Sight, unseen

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_STUB = "0rchardStub"
_ASK = {"role": "user", "content": "."}


class Chat:
    """A tokenizer and its chat template. Stateless but for what it learns of the template; thread-safe.

    end: the text that closes an assistant's turn. stops: ids that end a reply.
    sight: what makes tokens of pictures, for a model that sees. Raises `ConfigError` if the tokenizer has no chat
    template, or one whose turns have no end; later for pictures that the model or its template does not take.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", sight: Sight | None = None):
        self.tokenizer, self.sight = tokenizer, sight
        self.name = getattr(tokenizer, "name_or_path", "") or "the tokenizer"
        if not tokenizer.is_fast or not tokenizer.chat_template:
            missing = "chat template" if tokenizer.is_fast else "fast tokenizer"
            raise ConfigError(f"{self.name} has no {missing}", hint="take an instruct model's checkpoint")
        self._encoder = Encoder(tokenizer)
        self.end = self._find_end()
        self.end_id = tokenizer.convert_tokens_to_ids(self.end)
        self.stops = frozenset({self.end_id, tokenizer.eos_token_id} - {None})
        self.keeps_history = self._check_history()
        self._plain = self._before_plain()
        self._around_user: tuple[str, str] | tuple[()] | None = None

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = (), previous: Reply | None = None
    ) -> Tokens:
        """The prompt for the next reply: whole, or after `previous` its ids and what is new. With `previous`,
        `origins` covers only the new ids. Raises `PolicyError` if `messages` does not continue `previous`.
        """
        turn = 1 + sum(m.role == "assistant" for m in messages)
        if previous is None or previous.prompt_ids is None or previous.ids is None:
            return self._encode(self._render(messages, tools, open_reply=True), messages, turn)
        said = previous.n_messages
        if len(messages) <= said or messages[said] != previous.message:
            raise PolicyError(
                "the conversation does not continue the previous reply",
                code="history_changed",
                attributable="client",
                effect="none",
            )
        known = previous.prompt_ids + previous.ids
        new = self.after(messages[said + 1 :], tools, closed=bool(known) and known[-1] == self.end_id, turn=turn)
        return Tokens(known + new.ids, new.origins, previous.images + new.moved(len(known)))

    def window(self, tokens: Tokens) -> Tokens:
        """The same, unless it shows more pictures than it may: then words stand for the older ones and all that was
        said is context, a sequence of its own, in which every id has its letter.
        """
        if self.sight is None or len(tokens.images) <= self.sight.keep:
            return tokens
        origins = tokens.origins.rjust(len(tokens.ids), "e").replace("p", "e")
        return self.sight.without_older(Tokens(tokens.ids, origins, tokens.images), self._encoder.encode(LEFT_OUT, ()))

    def after(
        self, new: Sequence[Message], tools: Sequence[dict[str, Any]] = (), *, closed: bool, turn: int = 0
    ) -> Tokens:
        """What follows a reply: the rest of its turn, `new` messages, the opening of the next reply.
        closed: the reply ended with `end`; a reply that was cut gets it from here, as template.
        """
        tokens = self._encode(self.end + self._behind_end(new, tools), new, turn)
        return Tokens(tokens.ids[1:], tokens.origins[1:], tokens.moved(-1)) if closed else tokens

    def answer(self, message: Message) -> Tokens:
        """An assistant message as the policy would have sampled it, with its end: all `p`."""
        ids = self._encode(self._reply_text(message), [message]).ids
        return Tokens(ids, "p" * len(ids))

    def transcript(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> Tokens:
        """A whole conversation the way a rollout would have built it: training sees what sampling will see.
        Each assistant message is one run of `p`, its end included, in order; nothing follows the last of them.
        """
        return self._grown(messages, tools, lambda tokens: tokens)[-1]

    def segments(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> tuple[Tokens, ...]:
        """The same as the sequences that a rollout would have given: a new one whenever older pictures leave."""
        return self._grown(messages, tools, self.window)

    def _grown(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], window: Callable[[Tokens], Tokens]
    ) -> tuple[Tokens, ...]:
        turns = [i for i, m in enumerate(messages) if m.role == "assistant"]
        if not turns:
            return (window(self.prompt(messages, tools)),)
        done: list[Tokens] = []
        now = window(self.prompt(messages[: turns[0]], tools)) + self.answer(messages[turns[0]])
        for turn, (i, j) in enumerate(zip(turns, turns[1:], strict=False), 2):
            longer = now + self.after(messages[i + 1 : j], tools, closed=True, turn=turn)
            shown = window(longer)
            done += [now] if shown is not longer else []
            now = shown + self.answer(messages[j])
        return (*done, now)

    def read(self, ids: Sequence[int], *, tools: bool = False, first_call: int = 0) -> Message:
        """The message that sampled ids say. tools: look for tool calls, numbered from `first_call`."""
        ids = ids[:-1] if ids and ids[-1] in self.stops else ids
        return parse(self._encoder.decode(ids), tools=tools, first_call=first_call)

    def _render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], *, open_reply: bool) -> str:
        return self._apply([self._as_dict(m) for m in messages], tools, open_reply)

    def _apply(self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]], open_reply: bool) -> str:
        from jinja2 import TemplateError

        try:
            text = self.tokenizer.apply_chat_template(
                messages, tools=list(tools) or None, add_generation_prompt=open_reply, tokenize=False
            )
        except TemplateError as error:
            raise ConfigError(f"the chat template of {self.name} refuses a conversation: {error}") from error
        return str(text)

    def _behind_end(self, new: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        """What the template writes after the end of an assistant's turn when `new` follows it."""
        if len(new) != 1 or new[0].role != "user" or new[0].images:
            return self._behind_stub(new, tools)
        around = self._around_user
        if around is None:  # the common case is learned once, if the template leaves content as it is
            content = f" {_STUB}\n"
            text = self._behind_stub([Message("user", content)], tools)
            before, found, after = text.partition(content)
            around = self._around_user = (before, after) if found else ()
        return around[0] + self._encoder.guard(new[0].content) + around[1] if around else self._behind_stub(new, tools)

    def _behind_stub(self, new: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        said = {"role": "assistant", "content": _STUB}
        tail = [self._as_dict(m) for m in new]
        try:
            text = self._apply([_ASK, said, *tail], tools, True)
        except ConfigError:  # some templates want a call before its result
            calls = [_call(m.tool_call_id, "stub", {"x": _STUB}) for m in new if m.role == "tool"]
            text = self._apply([_ASK, {**said, "content": "", "tool_calls": calls}, *tail], tools, True)
        at = text.index(self.end, text.index(_STUB) + len(_STUB))
        return text[at + len(self.end) :]

    def _reply_text(self, message: Message) -> str:
        """From the template where its reply continues its own opening, else as `write` has it."""
        if self._plain is not None and not message.reasoning and not message.tool_calls:
            return self._plain + self._encoder.guard(message.content) + self.end
        opening = self._apply([_ASK], (), True)
        text = self._apply([_ASK, self._as_dict(message)], (), False)
        at = text.rfind(self.end)
        if text.startswith(opening) and at >= len(opening):
            return text[len(opening) : at + len(self.end)]
        return self._encoder.guard(write(message)) + self.end

    def _before_plain(self) -> str | None:
        """What stands between the opening of a reply and its text (an empty thought, say); None if they differ."""
        opening = self._apply([_ASK], (), True)
        text = self._apply([_ASK, {"role": "assistant", "content": _STUB}], (), False)
        return text[len(opening) : text.index(_STUB)] if text.startswith(opening) else None

    def _find_end(self) -> str:
        text = self._apply([_ASK, {"role": "assistant", "content": _STUB}], (), False)
        rest = text[text.index(_STUB) + len(_STUB) :] if _STUB in text else ""
        found = self._encoder.special.match(rest.lstrip())
        if not found or not found.group():
            raise ConfigError(f"the chat template of {self.name} does not end an assistant's turn with a special token")
        return found.group()

    def _check_history(self) -> bool:
        """Whether the template renders a longer conversation as an extension of a shorter one, thinking included."""
        said = {"role": "assistant", "content": "<think>\nb\n</think>\n\na"}
        short = self._apply([_ASK, said], (), False)
        return self._apply([_ASK, said, _ASK], (), False).startswith(short[: short.rfind(self.end)])

    def _encode(self, text: str, messages: Sequence[Message], turn: int = 0) -> Tokens:
        parts = [part for m in messages for part in (m.reasoning, m.content) if part]
        tokens = self._encoder.encode(text, list(map(self._encoder.guard, parts)))
        images = [sha for m in messages for sha in m.images]
        if images and self.sight is None:
            raise unseen(self.name)
        return self.sight.shown(tokens, images, turn) if images and self.sight else tokens

    def _as_dict(self, message: Message) -> dict[str, Any]:
        guard = self._encoder.guard
        said: dict[str, Any] = {"role": message.role, "content": guard(message.content)}
        if message.images:
            text = [{"type": "text", "text": said["content"]}] if message.content else []
            said["content"] = [*text, *({"type": "image"} for _ in message.images)]
        if message.reasoning:
            said["reasoning_content"] = guard(message.reasoning)
        if message.tool_calls:
            said["tool_calls"] = [_call(c.id, guard(c.name), _mapped(c.arguments, guard)) for c in message.tool_calls]
        if message.role == "tool":
            said["tool_call_id"] = message.tool_call_id
        return said


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(k): _mapped(v, change) for k, v in value.items()}
    return [_mapped(v, change) for v in value] if isinstance(value, list) else value
