"""The HTTP policy against a real server on this machine that plays each fault."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.endpoint import Endpoint, completion

from orchard_cli import schema
from orchard_cli.errors import ConfigError, Fault, PolicyError
from orchard_cli.policy.http import HttpPolicy
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.trajectory import Message, ToolCall, Usage

KEY = "sk-very-secret"
ASK = (Message("user", "hi"),)
TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("TEACHER_KEY", KEY)
    server = Endpoint()
    yield server
    server.close()


Open = Callable[..., HttpPolicy]


@pytest.fixture
def open_policy() -> Iterator[Open]:
    made: list[HttpPolicy] = []

    def make(url: str, *, tokens: bool = False, **settings: Any) -> HttpPolicy:
        cfg = schema.Teacher(
            kind="http", base_url=url, model="m1", api_key_env="TEACHER_KEY", **{"retries": 0, **settings}
        )
        made.append(HttpPolicy(cfg, tokens=tokens))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def fault_of(policy: HttpPolicy) -> tuple[Fault, str]:
    with pytest.raises(PolicyError) as caught:
        policy.reply(ASK, sampling=Sampling())
    assert KEY not in str(caught.value) + caught.value.hint
    return caught.value.fault, caught.value.hint


def test_a_reply_carries_text_usage_and_cost(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(200, completion())]
    policy = open_policy(server.url, price_in=2.0, price_out=10.0)
    reply = policy.reply(ASK, sampling=Sampling(temperature=0.3, top_p=0.9, max_tokens=7, seed=5))
    assert reply == Reply(Message("assistant", "hello"), "stop", Usage(1, 1000, 200, 0.002 + 0.002), n_messages=1)
    assert server.asked == [
        {
            "model": "m1",
            "messages": [{"role": "user", "content": "hi"}],
            "temperature": 0.3,
            "top_p": 0.9,
            "max_tokens": 7,
            "seed": 5,
        }
    ]
    assert server.keys == [f"Bearer {KEY}"]


def test_tool_calls_and_reasoning_go_both_ways(server: Endpoint, open_policy: Open) -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    server.answers = [(200, completion(None, "tool_calls", tool_calls=[call], reasoning_content="hm"))]
    policy = open_policy(server.url)
    reply = policy.reply(ASK, tools=(TOOL,), sampling=Sampling())
    assert reply.message == Message("assistant", "", "hm", (ToolCall("a1", "bash", {"command": "ls"}),))
    assert reply.finish == "tool_calls"
    policy.reply((*ASK, reply.message, Message("tool", "x.py", tool_call_id="a1")), tools=(TOOL,), sampling=Sampling())
    assert server.asked[1]["tools"] == [TOOL]
    assert server.asked[1]["messages"][1:] == [
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "x.py", "tool_call_id": "a1"},
    ]


def test_vllm_names_its_reasoning_field_differently(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(200, completion("a", reasoning="because"))]
    assert open_policy(server.url).reply(ASK, sampling=Sampling()).message.reasoning == "because"


def test_arguments_that_are_not_json_stay_in_the_text(server: Endpoint, open_policy: Open) -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "l'}}
    server.answers = [(200, completion("so", "length", tool_calls=[call]))]
    reply = open_policy(server.url).reply(ASK, tools=(TOOL,), sampling=Sampling())
    assert reply.message == Message("assistant", 'so\n<tool_call>bash {"command": "l</tool_call>')
    assert reply.finish == "length"


def with_tokens(prompt: list[int], ids: list[Any], logprobs: list[float]) -> dict[str, Any]:
    answer = completion()
    answer["prompt_token_ids"] = prompt
    answer["choices"][0]["token_ids"] = ids
    answer["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": p} for p in logprobs]}
    return answer


def test_token_ids_are_kept_when_they_extend_the_previous_reply(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(200, with_tokens([1, 2], [3], [-0.5])), (200, with_tokens([1, 2, 3, 9], [4], [-1]))]
    policy = open_policy(server.url, tokens=True)
    first = policy.reply(ASK, sampling=Sampling())
    assert (first.prompt_ids, first.ids, first.logprobs, first.origins) == ((1, 2), (3,), (-0.5,), "ee")
    again = (*ASK, first.message, Message("user", "go on"))
    second = policy.reply(again, sampling=Sampling(), previous=first)
    assert (second.prompt_ids, second.ids, second.origins) == ((1, 2, 3, 9), (4,), "e")
    assert server.asked[0]["return_token_ids"] is True and server.asked[0]["logprobs"] is True


@pytest.mark.parametrize(
    "answer",
    [
        with_tokens([7, 7], [4], [-1.0]),  # does not continue
        with_tokens([1, 2, 3], [4, 5], [-1.0]),  # a log-prob is missing
        with_tokens([1, 2, 3], ["4"], [-1.0]),
    ],
)
def test_token_ids_that_do_not_fit_are_left_out(server: Endpoint, open_policy: Open, answer: dict[str, Any]) -> None:
    previous = Reply(Message("assistant", "a"), "stop", Usage(), (1, 2), (3,), (-0.5,), "tt")
    server.answers = [(200, answer)]
    reply = open_policy(server.url, tokens=True).reply(ASK, sampling=Sampling(), previous=previous)
    assert reply.prompt_ids is reply.ids is reply.logprobs is None


def test_an_endpoint_that_is_down(open_policy: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEACHER_KEY", KEY)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, not listening
        url = f"http://user:pw@127.0.0.1:{held.getsockname()[1]}/v1"
        fault, hint = fault_of(open_policy(url))
    shown = url.replace("user:pw@", "")
    assert fault == Fault(
        "policy",
        "http.unreachable",
        f"cannot reach {shown}: [Errno 111] Connection refused",
        "infra",
        "none",
        "same",
    )
    assert hint == "is the endpoint running, and is teacher.base_url right?"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_the_run(server: Endpoint, open_policy: Open, status: int) -> None:
    server.answers = [(status, {"error": {"message": f"Incorrect API key provided: {KEY}"}})]
    fault, hint = fault_of(open_policy(server.url, retries=3))
    said = f"{server.url} refused the key in TEACHER_KEY ({status}): Incorrect API key provided: ***"
    assert fault == Fault("policy", "http.unauthorized", said, "client", "none", "never")
    assert hint == "check the key in the environment variable TEACHER_KEY"
    assert len(server.asked) == 1


def test_an_unknown_model(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(404, {"error": {"message": "The model `m1` does not exist."}})]
    fault, _ = fault_of(open_policy(server.url))
    said = f"{server.url} does not know `m1` (404): The model `m1` does not exist."
    assert fault == Fault("policy", "http.not_found", said, "client", "none", "never")


def test_a_rate_limit_is_waited_out(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(429, {"error": {"message": "slow down"}}), (200, completion())]
    assert open_policy(server.url, retries=2).reply(ASK, sampling=Sampling()).message.content == "hello"
    assert len(server.asked) == 2


@pytest.mark.parametrize(("status", "effect"), [(429, "none"), (500, "unknown"), (503, "unknown")])
def test_an_endpoint_that_stays_busy(server: Endpoint, open_policy: Open, status: int, effect: Any) -> None:
    server.answers = [(status, {"error": {"message": "overloaded"}})]
    fault, _ = fault_of(open_policy(server.url, retries=1))
    said = f"{server.url} answered {status}, also after 1 retries: overloaded"
    assert fault == Fault("policy", f"http.{status}", said, "infra", effect, "same")
    assert len(server.asked) == 2


def test_an_endpoint_that_never_answers(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(0, None)]
    fault, _ = fault_of(open_policy(server.url, timeout_s=0.2))
    said = f"no reply from {server.url} within 0.2 s"
    assert fault == Fault("policy", "http.timeout", said, "infra", "unknown", "same")


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"choices": []}, '{"choices": []}'),
        ({"choices": [{"message": "hi"}]}, '{"choices": [{"message": "hi"}]}'),
        ({"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]}, None),
        ("<html>busy</html>", None),
        ("[]", "[]"),
        ("null", "null"),
    ],
)
def test_a_malformed_reply(server: Endpoint, open_policy: Open, answer: Any, shown: str | None) -> None:
    server.answers = [(200, answer)]
    fault, _ = fault_of(open_policy(server.url))
    assert fault.message.startswith(f"{server.url} sent what is not a chat completion: {shown or ''}")
    assert (fault.code, fault.attributable, fault.retry) == ("http.malformed", "infra", "same")


def test_a_conversation_that_is_too_long_is_the_models_own_doing(server: Endpoint, open_policy: Open) -> None:
    said = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
    server.answers = [(400, {"error": {"message": said, "code": "context_length_exceeded"}})]
    fault, _ = fault_of(open_policy(server.url))
    said = f"the conversation is too long for `m1`: {said}"
    assert fault == Fault("policy", "context_overflow", said, "model", "none", "never")


def test_any_other_refusal_is_ours(server: Endpoint, open_policy: Open) -> None:
    server.answers = [(400, {"error": {"message": "temperature must be at most 2"}})]
    fault, _ = fault_of(open_policy(server.url))
    said = f"{server.url} refused the request (400): temperature must be at most 2"
    assert fault == Fault("policy", "http.400", said, "client", "none", "never")


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch, open_policy: Open) -> None:
    monkeypatch.delenv("TEACHER_KEY", raising=False)
    with pytest.raises(ConfigError) as caught:
        open_policy("https://models.example.org/v1")
    assert str(caught.value) == "no key for the teacher: the environment variable TEACHER_KEY is not set"
    assert caught.value.hint == "export TEACHER_KEY=… or name another variable with teacher.api_key_env"


def test_a_server_on_this_machine_needs_no_key(
    server: Endpoint, open_policy: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEACHER_KEY")
    server.answers = [(200, completion())]
    open_policy(server.url).reply(ASK, sampling=Sampling())
    assert server.keys == ["Bearer none"]


def test_a_teacher_needs_an_address_and_a_model() -> None:
    with pytest.raises(ConfigError, match="teacher.base_url is empty"):
        HttpPolicy(schema.Teacher(kind="http", model="m"))
    with pytest.raises(ConfigError, match="teacher.model is empty"):
        HttpPolicy(schema.Teacher(kind="http", base_url="http://127.0.0.1:1/v1"))
