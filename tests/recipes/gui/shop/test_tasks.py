"""Tasks from seeds: the same again, never shared between splits, told in several ways."""

import string

import pytest
from orchard_cli.recipes.gui.shop.families import FAMILIES, Draw
from orchard_cli.recipes.gui.shop.tasks import generate, wordings

from orchard_cli.errors import ConfigError

N = 3 * len(FAMILIES)


def test_the_same_seed_gives_the_same_tasks_and_a_longer_list_begins_with_a_shorter_one() -> None:
    assert list(generate("train", N, 7)) == list(generate("train", 2 * N, 7))[:N]
    assert [t.prompt for t in generate("train", N, 7)] != [t.prompt for t in generate("train", N, 8)]


def test_splits_share_no_shop() -> None:
    train = {t.data["shop"]["seed"] for seed in range(3) for t in generate("train", 60, seed)}
    held_out = {t.data["shop"]["seed"] for seed in range(3) for t in generate("eval", 60, seed)}
    assert not train & held_out


def test_held_out_families_are_for_evaluation_alone() -> None:
    train = {t.family for t in generate("train", N, held_out=["compare", "count"])}
    assert train == set(FAMILIES) - {"compare", "count"}
    assert {t.family for t in generate("eval", N, held_out=["compare", "count"])} == set(FAMILIES)
    assert {t.family for t in generate("eval", 4, families=["compare"])} == {"compare"}


@pytest.mark.parametrize("words", [{"families": ["chepest"]}, {"held_out": ["x"]}])
def test_an_unknown_family_is_named(words: dict[str, list[str]]) -> None:
    with pytest.raises(ConfigError, match="no family") as error:
        list(generate("train", 1, **words))
    assert "cheapest" in error.value.hint


def test_holding_everything_out_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no family of the shop is left"):
        list(generate("train", 1, families=["count"], held_out=["count"]))


def test_every_family_has_wordings_that_use_the_same_slots() -> None:
    assert wordings().keys() == FAMILIES.keys() and len(FAMILIES) >= 12
    for family, texts in wordings().items():
        slots = [{name for _, name, _, _ in string.Formatter().parse(t) if name} for t in texts]
        assert len(texts) >= 3 and all(s == slots[0] for s in slots), family


def test_prompts_hold_no_id_and_what_is_hidden_stays_hidden() -> None:
    for task in generate("train", N):
        assert "{" not in task.prompt
        assert set(task.data) == {"shop"} and set(task.data["shop"]) == {"seed", "start"}
        for milestone in task.hidden["plan"]:
            assert milestone.get("product", "no product") not in task.prompt


def test_the_cheapest_is_the_one_cheapest() -> None:
    for task in generate("train", 40, families=["cheapest", "filter_buy"]):
        products = {p.id: p for p in Draw(task.data["shop"]["seed"], None).products}  # type: ignore[arg-type]
        add = next(m for m in task.hidden["plan"] if m["do"] == "add")
        chosen = products[add["product"]]
        rivals = [p for p in products.values() if (p.category, p.colour) == (chosen.category, chosen.colour)]
        assert len(rivals) > 1 and all(p.price > chosen.price for p in rivals if p is not chosen)
