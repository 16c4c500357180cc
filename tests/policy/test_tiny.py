import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from orchard_cli import schema
from orchard_cli.errors import ConfigError
from orchard_cli.policy.tiny import build_model, build_tokenizer, common_words, phrases

from .conftest import CORPUS, NAMES, SMALL, conversation, said_by


def pieces(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    return [tokenizer.decode([i]) for i in tokenizer(text)["input_ids"]]


def test_every_text_comes_back_as_it_was(tokenizer: PreTrainedTokenizerFast) -> None:
    @settings(max_examples=200, deadline=None)
    @given(st.text() | st.text(alphabet="ab_ \t\n\r0'=<|>/é\u2028😀") | st.sampled_from(said_by("", CORPUS)))
    def check(text: str) -> None:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text

    check()


def test_what_replies_repeat_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    assert pieces(tokenizer, "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```") == [
        "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"
    ]
    assert pieces(tokenizer, "```bash\ncat -n left.py\n```") == ["```bash\ncat -n ", "left", ".py\n```"]


def test_digits_stand_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    assert pieces(tokenizer, "1234") == ["1", "2", "3", "4"]


def test_a_name_is_cut_the_same_way_in_a_listing_and_in_a_command(tokenizer: PreTrainedTokenizerFast) -> None:
    for name in (*NAMES, "never_seenName"):
        alone = tokenizer(name)["input_ids"]
        for around in (f"return {name} + b", f"s/{name} - b/", f"f({name}, b)", f"\t    {name} = 1"):
            ids = tokenizer(around)["input_ids"]
            assert any(ids[i : i + len(alone)] == alone for i in range(len(ids))), around


def test_a_message_costs_two_template_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    said = conversation(0)
    ids = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in said], add_generation_prompt=True, return_dict=False
    )
    content = sum(len(tokenizer(m.content)["input_ids"]) for m in said)
    assert len(ids) == content + 2 * len(said) + 1


def test_the_vocabulary_keeps_its_size_and_the_same_text_gives_the_same_one() -> None:
    def made() -> PreTrainedTokenizerFast:
        return build_tokenizer(said_by("", CORPUS), 300, replies=said_by("assistant", CORPUS))

    first, second = made(), made()
    assert len(first) == 300
    assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match="model.vocab leaves 194 tokens, the bytes alone need 256"):
        build_tokenizer(["a"], 200)


def test_phrases_hold_no_digits_and_need_many_replies() -> None:
    replies = [f"ls -la {i}" for i in range(10)] + ["rare words here"]
    assert phrases(replies) == ["ls -la "]
    assert phrases([]) == []


def test_common_words_are_prose_and_keywords_not_names() -> None:
    texts = ["The value of items is wrong.", "def f(items): return items", "The sum of f(items) is off."]
    assert common_words(texts) == ["return", "The", "def", "is", "of"]


def test_the_weights_follow_from_the_seed(tokenizer: PreTrainedTokenizerFast) -> None:
    before = torch.get_rng_state()
    first, same, other = (build_model(SMALL, tokenizer, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_width_that_heads_cannot_share_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ConfigError, match=r"model.hidden \(30\) is not an even multiple of model.heads \(4\)"):
        build_model(schema.Model(hidden=30, heads=4), tokenizer, 0)
