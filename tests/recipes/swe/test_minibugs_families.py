"""What each family does to a function."""

import pytest
from orchard_cli.recipes.swe.minibugs import FAMILIES
from orchard_cli.recipes.swe.minibugs.catalog import bodies
from orchard_cli.recipes.swe.minibugs.draw import text_for

LOOP = """\
def F(xs, n):
    out = []
    for x in xs:
        if x > n:
            break
        out.append(x)
    return out
"""


def broken(family: str, line: str, head: str = "def F(x, n):") -> set[str]:
    """What a family makes of a function of one line."""
    text = f"{head}\n    {line}\n"
    return {edit.apply(text).split("\n")[1].strip() for edit in FAMILIES[family](text)}


@pytest.mark.parametrize(
    ("family", "line", "some"),
    [
        ("comparison", "return x > n", {"return x >= n", "return x < n"}),
        ("off_by_one", "return range(1, n + 1)", {"return range(1, n)", "return range(0, n + 1)"}),
        ("arithmetic", "return x * n", {"return x + n"}),
        ("logical", "return x > 0 and x < n", {"return x > 0 or x < n"}),
        ("negation", "return x not in n", {"return x in n"}),
        ("negation", "return [v for v in x if v]", {"return [v for v in x if not v]"}),
        ("swap", "return x % n", {"return n % x"}),
        ("swap", "return x.startswith(n)", {"return n.startswith(x)"}),
        ("variable", "return x * n", {"return n * n", "return x * x"}),
        ("method", "return x.upper()", {"return x.lower()"}),
        ("minmax", "return max(x, n)", {"return min(x, n)"}),
        ("division", "return x // n", {"return x / n", "return x % n"}),
        ("index", "return x[0]", {"return x[1]", "return x[-1]"}),
        ("constant", "return x * K", {"return x * J"}),
    ],
)
def test_a_family_makes_its_kind_of_bug(family: str, line: str, some: set[str]) -> None:
    assert some <= broken(family, line)


def test_a_loop_over_a_sequence_is_not_taken_for_a_membership_test() -> None:
    assert broken("negation", "return [x for x in n]") == set()


def test_what_is_written_to_stays_as_it_is() -> None:
    assert all("out.append" in edit.apply(LOOP) for edit in FAMILIES["variable"](LOOP))


def test_an_early_return_moves_into_the_loop() -> None:
    made = [edit.apply(LOOP) for edit in FAMILIES["early_return"](LOOP)]
    assert any(text.endswith("        out.append(x)\n        return out\n") for text in made)
    assert any("continue" in text for text in made)


def test_a_default_is_changed_in_the_signature_alone() -> None:
    text = "def F(x, n=K):\n    return x > n\n"
    assert [edit.apply(text) for edit in FAMILIES["default"](text)] == ["def F(x, n=J):\n    return x > n\n"]


def test_every_edit_changes_one_line_and_leaves_python() -> None:
    for body in bodies()[::7]:
        for family, edits in FAMILIES.items():
            text = text_for(body, family)
            for edit in edits(text):
                made = edit.apply(text)
                compile(made, "made", "exec")
                pairs = zip(text.split("\n"), made.split("\n"), strict=True)
                assert sum(a != b for a, b in pairs) == 1, (family, text, made)
