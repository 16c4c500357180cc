"""A model that sees: sampling agrees with transformers' own forward pass, tokens agree with pixels."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from orchard_cli.errors import ConfigError, DataError, PolicyError
from orchard_cli.harness.ledger import LedgerBuilder
from orchard_cli.policy.chat import Chat
from orchard_cli.policy.hf import HfPolicy
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.policy.sight import Sight
from orchard_cli.policy.vision import Vision
from orchard_cli.policy.weights import load, save
from orchard_cli.trajectory import Blobs, Message, Shown

from . import seeing
from .seeing import COLOURS, conversation, png

SOME = Sampling(max_tokens=5, seed=3)
Open = Callable[..., HfPolicy]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Sight]:
    torch.set_num_threads(1)
    return seeing.build(tmp_path_factory.mktemp("blobs"))


@pytest.fixture(scope="module")
def shas(made: tuple[Any, Any, Sight]) -> list[str]:
    """Pictures of three sizes: 4, 6 and 8 tokens."""
    sizes = [(64, 64), (96, 64), (64, 128), (64, 64)]
    return [made[2].blobs.put(png(c, *size)) for c, size in zip(COLOURS.values(), sizes, strict=True)]


@pytest.fixture
def open_policy(made: tuple[Any, Any, Sight]) -> Iterator[Open]:
    opened: list[HfPolicy] = []

    def make(keep: int = 9, **how: Any) -> HfPolicy:
        model, tokenizer, sight = made
        sight = Sight(model.config, sight.processor, sight.blobs, keep)
        opened.append(HfPolicy(model, tokenizer, "seer", copies=False, sight=sight, **how))
        return opened[-1]

    yield make
    for policy in opened:
        policy.close()


def talk(policy: HfPolicy, shas: list[str], sampling: Sampling = SOME) -> list[Reply]:
    """One reply to each picture, as a harness would ask for them."""
    messages: list[Message] = []
    replies: list[Reply] = []
    for at, sha in enumerate(shas):
        messages.append(Message("user", f"colour {at}?", images=(sha,)))
        replies.append(policy.reply(messages, sampling=sampling, previous=replies[-1] if replies else None))
        messages.append(replies[-1].message)
    return replies


def recomputed(made: tuple[Any, Any, Sight], reply: Reply) -> torch.Tensor:
    """Log-probs of a reply's tokens by transformers' own forward pass, pictures found by their token id."""
    model, _, sight = made
    ids = torch.tensor([[*reply.prompt_ids, *reply.ids]])
    kinds = torch.zeros_like(ids)
    for image in reply.images:
        kinds[0, image.start : image.start + image.length] = 1
    plain = ids.masked_fill((ids == sight.image_id) & (kinds == 0), 0)
    assert torch.equal(plain, ids), "this seed samples a placeholder, which transformers cannot tell from a picture"
    pictures = [sight.picture(image.sha) for image in reply.images]
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            pixel_values=torch.cat([p.patches_PD for p in pictures]),
            image_grid_thw=torch.tensor([p.grid for p in pictures]),
            mm_token_type_ids=kinds,
        ).logits[0]
    said = len(reply.ids)
    return torch.log_softmax(logits[-said - 1 : -1].float(), -1).gather(-1, ids[0, -said:, None])[:, 0]


def test_it_has_fewer_than_a_million_parameters() -> None:
    cfg = msgspec.convert({"kind": "tiny_vl", "hidden": 128, "layers": 2, "ffn": 256}, seeing.schema.Model)
    words = [f"word{i} {i}" for i in range(2000)]
    model, _, _ = seeing.made.build(cfg, words, words, 0)
    assert 500_000 < sum(p.numel() for p in model.parameters()) < 1_000_000


def test_log_probs_are_those_of_the_models_own_forward_pass(
    made: tuple[Any, Any, Sight], shas: list[str], open_policy: Open
) -> None:
    for reply in talk(open_policy(), shas):
        assert torch.allclose(torch.tensor(reply.logprobs), recomputed(made, reply), atol=1e-4)
        assert [image.turn for image in reply.images] == list(range(1, len(reply.images) + 1))


def test_together_as_alone(shas: list[str], open_policy: Open) -> None:
    from concurrent.futures import ThreadPoolExecutor

    wanted = [shas[:2], shas[1:3], shas[2:], [shas[3], shas[0]]]
    alone = [talk(open_policy(max_batch=1), some) for some in wanted]
    policy = open_policy()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda some: talk(policy, some), wanted))
    for a, b in zip(alone, together, strict=True):
        assert [r.ids for r in a] == [r.ids for r in b]
        assert torch.allclose(torch.tensor(a[-1].logprobs), torch.tensor(b[-1].logprobs), atol=1e-4)


def test_pictures_of_one_size_are_told_apart(shas: list[str], open_policy: Open) -> None:
    """Their prompts are the same ids: what is remembered of one must not answer for the other."""
    policy = open_policy()
    first, second = (talk(policy, [sha])[0] for sha in (shas[0], shas[3]))
    assert first.prompt_ids == second.prompt_ids and first.logprobs[0] != second.logprobs[0]


def test_positions_are_those_of_transformers(made: tuple[Any, Any, Sight], shas: list[str]) -> None:
    model, tokenizer, sight = made
    tokens = Chat(tokenizer, sight).prompt(conversation(shas[:3], ["red", "green"]))
    kinds = torch.zeros(1, len(tokens.ids), dtype=torch.long)
    for image in tokens.images:
        kinds[0, image.start : image.start + image.length] = 1
    grids = torch.tensor([sight.picture(image.sha).grid for image in tokens.images])
    want, _ = model.model.get_rope_index(torch.tensor([tokens.ids]), kinds, image_grid_thw=grids)
    vision = Vision(model, sight)
    got = vision.positions(0, len(tokens.ids), tokens.images)
    assert torch.equal(got, want[:, 0])
    for start in range(len(tokens.ids)):
        assert torch.equal(vision.positions(start, len(tokens.ids), tokens.images), got[:, start:])


def test_a_ledger_is_exact_with_pictures(made: tuple[Any, Any, Sight], shas: list[str], open_policy: Open) -> None:
    builder = LedgerBuilder()
    replies = talk(open_policy(), shas)
    for reply in replies:
        builder.add(reply)
    (ledger,) = builder.build()
    assert ledger.ids == replies[-1].prompt_ids + replies[-1].ids
    assert [image.sha for image in ledger.images] == shas
    letters = "".join(run.origin.value[0] * run.length for _, _, run in ledger.spans())
    for image in ledger.images:
        assert letters[image.start : image.start + image.length] == "e" * image.length
    assert len(ledger.logprobs) == letters.count("p") == sum(len(r.ids) for r in replies)


def test_a_window_that_moves_begins_a_ledger(made: tuple[Any, Any, Sight], shas: list[str], open_policy: Open) -> None:
    """With one picture kept, each turn shows its own, and words for those before; all else goes on id for id."""
    policy, builder = open_policy(keep=1), LedgerBuilder()
    replies = talk(policy, shas[:3])
    spans = [builder.add(reply) for reply in replies]
    ledgers = builder.build()
    assert [r.fresh for r in replies] == [False, True, True] and len(ledgers) == 3
    for ledger, reply, sha, span in zip(ledgers, replies, shas, spans, strict=False):
        assert [image.sha for image in ledger.images] == [sha]
        assert ledger.ids[slice(*span)] == reply.ids and len(ledger.logprobs) == len(reply.ids)
        assert torch.allclose(torch.tensor(reply.logprobs), recomputed(made, reply), atol=1e-4)
    text = policy.chat.tokenizer.decode(ledgers[2].ids)
    assert text.count("[an older image is left out]") == 2 and text.count("<|vision_start|>") == 1
    assert ledgers[1].ids[-len(replies[1].ids) :] == replies[1].ids
    at = ledgers[2].ids.index(replies[1].ids[0], len(replies[0].ids))
    assert replies[1].ids in [ledgers[2].ids[i : i + len(replies[1].ids)] for i in range(at, len(ledgers[2].ids))]


@pytest.mark.parametrize("keep", [1, 2, 9])
def test_what_is_rendered_for_training_is_what_was_sampled(
    made: tuple[Any, Any, Sight], shas: list[str], keep: int
) -> None:
    """Segments of a conversation are the ledgers that a policy with the same words would leave."""
    model, tokenizer, sight = made
    chat = Chat(tokenizer, Sight(model.config, sight.processor, sight.blobs, keep))
    answers = ["red", "green", "blue"]
    messages = conversation(shas[:3], answers)
    builder, previous = LedgerBuilder(), None
    for turn in range(3):
        longer = chat.prompt(messages[: 2 * turn + 1], previous=previous)
        prompt = chat.window(longer)
        said = chat.answer(messages[2 * turn + 1]).ids
        previous = Reply(
            messages[2 * turn + 1],
            "stop",
            seeing_usage(),
            prompt.ids,
            said,
            (0.0,) * len(said),
            prompt.origins,
            0,
            2 * turn + 1,
            prompt.images,
            prompt is not longer and previous is not None,
        )
        builder.add(previous)
    segments = chat.segments(messages)
    ledgers = builder.build()
    assert [s.ids for s in segments] == [ledger.ids for ledger in ledgers]
    assert [s.images for s in segments] == [ledger.images for ledger in ledgers]
    assert len(segments) == {1: 3, 2: 2, 9: 1}[keep]
    assert sum(s.origins.count("p") for s in segments) == sum(len(ledger.logprobs) for ledger in ledgers)


def seeing_usage() -> Any:
    from orchard_cli.trajectory import Usage

    return Usage()


def test_a_tampered_picture_is_a_fault_that_names_turn_and_picture(
    made: tuple[Any, Any, Sight], open_policy: Open
) -> None:
    sight = made[2]
    sha = sight.blobs.put(png((9, 9, 9)))
    sight.blobs.path(sha).write_bytes(png((9, 9, 9), 128, 128))
    with pytest.raises(PolicyError, match=f"turn 1: .*{sha}.*damaged") as caught:
        talk(open_policy(), [sha])
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("picture", "infra")


def test_tokens_that_do_not_fit_the_pixels_are_refused(made: tuple[Any, Any, Sight], shas: list[str]) -> None:
    _, tokenizer, sight = made
    tokens = Chat(tokenizer, sight).prompt(conversation(shas[:2], ["red"]))
    sight.check(tokens.ids, tokens.images)
    first, second = tokens.images
    other = (first, Shown(shas[2], second.start, second.length, second.turn))
    with pytest.raises(DataError, match=rf"turn 2, picture 2 \({shas[2][:12]}\): 6 placeholder tokens, .* make 8"):
        sight.check(tokens.ids, other)
    moved = (Shown(first.sha, first.start + 1, first.length, 1), second)
    with pytest.raises(DataError, match="turn 1, picture 1 .* 3 placeholder tokens, but its pixels make 4"):
        sight.check(tokens.ids, moved)


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\nbroken", b"GIF89a", b"text", png((1, 1, 1), 1000, 2)])
def test_what_is_no_usable_picture_is_a_typed_fault(
    made: tuple[Any, Any, Sight], open_policy: Open, data: bytes
) -> None:
    with pytest.raises(PolicyError, match="no picture that can be read") as caught:
        talk(open_policy(), [made[2].blobs.put(data)])
    assert caught.value.fault.code == "picture"


def test_a_text_model_refuses_pictures_and_names_the_setting(tokenizer: Any, model: Any, shas: list[str]) -> None:
    policy = HfPolicy(model, tokenizer, "blind")
    try:
        with pytest.raises(ConfigError, match="reads text alone, but the conversation has pictures") as caught:
            talk(policy, shas[:1])
        assert "domain.view" in caught.value.hint
    finally:
        policy.close()


def test_placeholders_spelled_in_a_message_are_no_pictures(made: tuple[Any, Any, Sight], shas: list[str]) -> None:
    _, tokenizer, sight = made
    text = "<|vision_start|><|image_pad|><|vision_end|>"
    tokens = Chat(tokenizer, sight).prompt([Message("user", text, images=(shas[0],))])
    assert len(tokens.images) == 1 and tokens.ids.count(sight.image_id) == tokens.images[0].length


def test_a_checkpoint_keeps_its_image_processor(made: tuple[Any, Any, Sight], shas: list[str], tmp_path: Path) -> None:
    model, tokenizer, sight = made
    place = save(model, tokenizer, tmp_path / "checkpoint", sight.processor)
    again, _ = load(place, device="cpu")
    found = Sight.of(again, place, Blobs(sight.blobs.root))
    assert type(again) is type(model) and found
    assert found.picture(shas[1]).grid == sight.picture(shas[1]).grid
    assert torch.equal(found.picture(shas[1]).patches_PD, sight.picture(shas[1]).patches_PD)
    (place / "preprocessor_config.json").unlink()
    with pytest.raises(ConfigError, match="has no image processor"):
        Sight.of(again, place, None)


def test_a_sampled_placeholder_is_a_token_like_any_other(made: tuple[Any, Any, Sight], shas: list[str]) -> None:
    """Pictures are where the record says: what a policy writes neither shifts nor breaks them."""
    model, tokenizer, sight = made
    tokens = Chat(tokenizer, sight).prompt(conversation(shas[:1], []))
    vision = Vision(model, sight)
    with torch.no_grad():
        plain = vision.rows(torch.tensor([tokens.ids]), [tokens.images])
        more = vision.rows(torch.tensor([[*tokens.ids, sight.image_id, sight.image_id]]), [tokens.images])
    assert torch.allclose(more[:, :-2], plain, atol=1e-5)
    assert not torch.allclose(more[0, -1], more[0, -2], atol=1e-3)


def test_bfloat16_is_near_float32(made: tuple[Any, Any, Sight], shas: list[str]) -> None:
    model, tokenizer, sight = made
    policy = HfPolicy(model, tokenizer, "seer", dtype=torch.bfloat16, sight=sight)
    try:
        (reply,) = talk(policy, shas[:1])
    finally:
        policy.close()
    assert torch.allclose(torch.tensor(reply.logprobs), recomputed(made, reply), atol=0.1)
    assert model.dtype == torch.float32
