"""Sampling for many conversations at once: exact ids and log-probs, alone or together, over turns and updates."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from orchard_cli.errors import PolicyError, RunError
from orchard_cli.policy.dense import DenseForward
from orchard_cli.policy.forward import PlainForward
from orchard_cli.policy.hf import HfPolicy
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.policy.tiny import build_model
from orchard_cli.trajectory import Message

from .conftest import CORPUS, SMALL

Open = Callable[..., HfPolicy]


@pytest.fixture
def open_policy(tokenizer: PreTrainedTokenizerFast) -> Iterator[Open]:
    made: list[HfPolicy] = []

    def make(model: PreTrainedModel, **how: Any) -> HfPolicy:
        made.append(HfPolicy(model, tokenizer, "tiny", **how))
        return made[-1]

    yield make
    for policy in made:
        policy.close()


def family(name: str, vocab: int) -> PreTrainedModel:
    """Random small models whose forward passes differ: biases, shared key heads, experts, a sliding window."""
    size = {
        "vocab_size": vocab,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
    }
    torch.manual_seed(0)
    if name == "llama":
        rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0}
        rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
        return LlamaForCausalLM(LlamaConfig(**size, rope_parameters=rope))
    if name == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**size, tie_word_embeddings=True))
    if name == "experts":
        return Qwen3MoeForCausalLM(
            Qwen3MoeConfig(**size, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
        )
    return MistralForCausalLM(MistralConfig(**size, sliding_window=16))


def attempt(policy: HfPolicy, number: int, **how: Any) -> list[Reply]:
    """Three turns of one conversation."""
    messages: list[Message] = []
    replies: list[Reply] = []
    for asked in CORPUS[number][::2]:
        messages.append(asked)
        sampling = Sampling(**{"max_tokens": 9, "seed": number, **how})
        replies.append(policy.reply(messages, sampling=sampling, previous=replies[-1] if replies else None))
        messages.append(replies[-1].message)
    return replies


def together(policy: HfPolicy, numbers: Sequence[int], **how: Any) -> list[list[Reply]]:
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(lambda n: attempt(policy, n, **how), numbers))


def scored(model: PreTrainedModel, reply: Reply, temperature: float) -> torch.Tensor:
    """Log-probs of the sampled tokens from one ordinary forward pass."""
    assert reply.prompt_ids and reply.ids
    ids = torch.tensor([reply.prompt_ids + reply.ids])
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0, len(reply.prompt_ids) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1).gather(-1, ids[0, len(reply.prompt_ids) :, None])[:, 0]


def test_log_probs_are_those_of_one_forward_pass(model: PreTrainedModel, open_policy: Open) -> None:
    for replies in together(open_policy(model), range(12), temperature=0.8):
        for reply in replies:
            assert reply.logprobs is not None and reply.ids is not None
            assert len(reply.logprobs) == len(reply.ids)
            torch.testing.assert_close(torch.tensor(reply.logprobs), scored(model, reply, 0.8), atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "forward"),
    [("llama", DenseForward), ("qwen2", DenseForward), ("experts", PlainForward), ("sliding", None)],
)
def test_every_kind_of_decoder_is_sampled_right(
    name: str, forward: type | None, tokenizer: PreTrainedTokenizerFast, open_policy: Open
) -> None:
    model = family(name, len(tokenizer)).eval()
    policy = open_policy(model)
    assert policy._engine.alone if forward is None else type(policy._engine._forward) is forward
    for replies in together(policy, range(6)):
        for reply in replies:
            torch.testing.assert_close(torch.tensor(reply.logprobs), scored(model, reply, 1.0), atol=5e-5, rtol=0)


def test_greedy_is_the_same_alone_and_together(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    crowd = together(policy, range(16), temperature=0.0)
    fresh = open_policy(model, max_batch=1, memory=0)
    assert [[r.ids for r in replies] for replies in crowd] == [
        [r.ids for r in attempt(fresh, n, temperature=0.0)] for n in range(16)
    ]


def test_a_seed_repeats_and_another_differs(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    crowd = together(policy, range(8))
    again = open_policy(model)
    assert [[r.ids for r in attempt(again, n)] for n in range(8)] == [[r.ids for r in rs] for rs in crowd]
    assert attempt(again, 3, seed=99)[0].ids != crowd[3][0].ids


def test_attempts_at_one_prompt_share_its_keys_but_not_their_draws(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    with ThreadPoolExecutor(6) as pool:
        group = list(pool.map(lambda seed: attempt(policy, 0, seed=seed), range(6)))
    assert len({r[0].prompt_ids for r in group}) == 1
    assert len({r[0].ids for r in group}) == 6
    for replies in group:
        torch.testing.assert_close(torch.tensor(replies[2].logprobs), scored(model, replies[2], 1.0), atol=2e-5, rtol=0)


def test_each_prompt_extends_the_reply_before(model: PreTrainedModel, open_policy: Open) -> None:
    for replies in together(open_policy(model), range(4)):
        for before, after in zip(replies, replies[1:], strict=False):
            assert before.prompt_ids and before.ids and after.prompt_ids
            known = before.prompt_ids + before.ids
            assert after.prompt_ids[: len(known)] == known
            assert len(after.origins) == len(after.prompt_ids) - len(known)


def test_a_reply_ends_at_the_end_token_or_at_its_length(model: PreTrainedModel, open_policy: Open) -> None:
    replies = [r for rs in together(open_policy(model), range(24), max_tokens=40) for r in rs]
    end = replies[0].prompt_ids and open_policy(model).chat.end_id
    stopped = [r for r in replies if r.finish == "stop"]
    cut = [r for r in replies if r.finish == "length"]
    assert stopped and cut and len(stopped) + len(cut) == len(replies)
    assert all(r.ids and r.ids[-1] == end and end not in r.ids[:-1] for r in stopped)
    assert all(r.ids and len(r.ids) == 40 and end not in r.ids for r in cut)
    assert all("<|end|>" not in r.message.content for r in replies)
    assert all(r.usage.completion_tokens == len(r.ids or ()) for r in replies)


def test_the_context_cuts_a_reply_and_refuses_a_prompt(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    asked = CORPUS[0][:1]
    size = len(policy.chat.prompt(asked).ids)
    assert len(policy.reply(asked, sampling=Sampling(max_context=size + 1, max_tokens=9)).ids or ()) == 1
    with pytest.raises(PolicyError) as caught:
        policy.reply(asked, sampling=Sampling(max_context=size))
    assert str(caught.value) == f"the prompt has {size} tokens, the context only {size}"
    fault = caught.value.fault
    assert (fault.code, fault.attributable, fault.effect, fault.retry) == ("context_overflow", "model", "none", "never")


def test_a_nucleus_keeps_the_likeliest_tokens_and_whole_log_probs(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    asked = CORPUS[0][:1]
    greedy = policy.reply(asked, sampling=Sampling(temperature=0.0, max_tokens=1))
    for seed in range(8):
        reply = policy.reply(asked, sampling=Sampling(top_p=1e-6, max_tokens=1, seed=seed))
        assert reply.ids == greedy.ids
        assert reply.logprobs == pytest.approx(greedy.logprobs, abs=1e-5)


def test_new_weights_are_used_and_named(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, open_policy: Open
) -> None:
    policy = open_policy(model)
    before = attempt(policy, 0)
    new = build_model(SMALL, tokenizer, seed=7)
    policy.update(new, version=3)
    replies = attempt(policy, 0)
    assert (before[0].weight_version, replies[0].weight_version) == (0, 3)
    torch.testing.assert_close(torch.tensor(replies[1].logprobs), scored(new, replies[1], 1.0), atol=2e-5, rtol=0)
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    policy.update(state, version=4)
    assert [r.ids for r in attempt(policy, 0)] == [r.ids for r in before]


def test_an_update_while_many_sample_never_mixes_versions(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, open_policy: Open
) -> None:
    models = [model, build_model(SMALL, tokenizer, seed=7)]
    policy = open_policy(model)
    with ThreadPoolExecutor(9) as pool:
        running = [pool.submit(attempt, policy, n, max_tokens=30) for n in range(8)]
        policy.update(models[1], version=1)
        replies = [r for future in running for r in future.result()]
    for reply in replies:
        expected = scored(models[reply.weight_version], reply, 1.0)
        torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=2e-5, rtol=0)


def test_weights_that_do_not_fit_are_refused(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    with pytest.raises(RunError, match=r"`model.norm.weight` should be \(32,\), found nothing"):
        policy.update({k: v for k, v in model.state_dict().items() if k != "model.norm.weight"}, version=1)
    assert attempt(policy, 0)[0].weight_version == 0


def test_the_trainers_model_is_not_touched(model: PreTrainedModel, open_policy: Open) -> None:
    before = {k: v.clone() for k, v in model.state_dict().items()}
    policy = open_policy(model, dtype=torch.bfloat16)
    attempt(policy, 0)
    assert all(torch.equal(v, before[k]) and v.dtype == torch.float32 for k, v in model.state_dict().items())
    assert all(p.requires_grad for p in model.parameters())


def test_log_probs_in_bfloat16_stay_near(model: PreTrainedModel, open_policy: Open) -> None:
    for reply in attempt(open_policy(model, dtype=torch.bfloat16), 1):
        torch.testing.assert_close(torch.tensor(reply.logprobs), scored(model, reply, 1.0), atol=0.05, rtol=0)


def test_a_failure_reaches_the_callers_and_the_worker_goes_on(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model, copies=True)

    def fail(*_: object) -> None:
        raise MemoryError("too large")

    hook = policy._model.get_output_embeddings().register_forward_pre_hook(fail)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(attempt, policy, n) for n in range(4)]
        for future in running:
            with pytest.raises(PolicyError, match="sampling failed: MemoryError: too large") as caught:
                future.result()
            assert (caught.value.fault.code, caught.value.fault.attributable) == ("engine", "infra")
    hook.remove()
    assert len(attempt(policy, 0)) == 3


def test_broken_weights_stop_the_run(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    policy.update({k: v * float("nan") for k, v in model.state_dict().items()}, version=5)
    with pytest.raises(PolicyError, match=r"not a number \(weight version 5\)") as caught:
        attempt(policy, 0)
    assert (caught.value.fault.attributable, caught.value.fault.retry) == ("client", "never")
    policy.update(model, version=6)
    assert attempt(policy, 0)[0].weight_version == 6


def test_closing_fails_what_is_under_way(model: PreTrainedModel, open_policy: Open) -> None:
    policy = open_policy(model)
    started = threading.Event()
    policy._model.get_output_embeddings().register_forward_pre_hook(lambda *_: started.set())
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(attempt, policy, 0, max_tokens=10**6, max_context=32000)
        started.wait(20)
        policy.close()
        with pytest.raises(PolicyError, match="the policy was closed"):
            running.result()
    with pytest.raises(PolicyError, match="the policy was closed"):
        attempt(policy, 1)


def test_a_small_memory_forgets_and_stays_right(model: PreTrainedModel, open_policy: Open) -> None:
    roomy, tight = open_policy(model), open_policy(model, memory=60_000)
    assert [[r.ids for r in rs] for rs in together(tight, range(6))] == [
        [r.ids for r in rs] for rs in together(roomy, range(6))
    ]


def test_a_token_that_the_model_does_not_know_is_refused(tokenizer: PreTrainedTokenizerFast, open_policy: Open) -> None:
    with pytest.raises(PolicyError, match=r"the tokenizer has a token \d+, the model of tiny only 300") as caught:
        attempt(open_policy(family("qwen2", 300)), 0)
    assert (caught.value.fault.attributable, caught.value.fault.retry) == ("client", "never")
