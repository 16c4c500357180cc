"""The pool that minibugs are made from: real functions, many of them, and bugs of many kinds."""

import ast
import builtins
import keyword
import random
from collections import Counter, defaultdict

import pytest
from orchard_cli.recipes.swe.minibugs import FAMILIES, draw, proof
from orchard_cli.recipes.swe.minibugs.catalog import Body, bodies, negate
from orchard_cli.recipes.swe.minibugs.normal import normal_form, split_of


def ast_form(function: str) -> str:
    """A body's syntax tree without names and literals: a second opinion on what `normal_form` says."""
    body = ast.parse(function).body[0].body
    names: dict[str, str] = {}
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Name) and node.id in ("K", "J"):
            node.id = "constant"
        elif isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            node.id = names.setdefault(node.id, f"v{len(names)}")
        elif isinstance(node, ast.arg):
            node.arg = names.setdefault(node.arg, f"v{len(names)}")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, str):
            node.value = 0
    return "\n".join(map(ast.dump, body)).replace("Name(id='constant', ctx=Load())", "Constant(value=0)")


def proven_bodies(enough: int) -> dict[str, set[str]]:
    """Family → normal forms of bodies in which one of its bugs was seen to show; stops at `enough` for each."""
    found: dict[str, set[str]] = defaultdict(set)
    rng = random.Random(0)
    pool = rng.sample(bodies(), len(bodies()))
    for family, edits in FAMILIES.items():
        for body in pool:
            if len(found[family]) >= enough:
                break
            text = draw.text_for(body, family)
            broken = [edit.apply(text) for edit in edits(text)]
            if broken and shows(body, text, broken, family, rng):
                found[family].add(normal_form(text))
    return found


def shows(body: Body, text: str, broken: list[str], family: str, rng: random.Random) -> bool:
    numbers = draw.Numbers.draw(rng)
    inputs = draw.draw_inputs(body, rng, omit=family == "default")
    good, *bad = (proof.results(f, inputs) for f in proof.functions([text, *broken], numbers.fill))
    return any(not proof.hasty(b) and not all(map(proof.same, good, b)) for b in bad)


def test_there_are_twelve_families_with_two_hundred_bodies_each() -> None:
    counts = {family: len(forms) for family, forms in proven_bodies(200).items()}
    assert len(counts) >= 12
    assert min(counts.values()) >= 200, counts


def test_bodies_differ_after_names_and_literals_are_taken_out() -> None:
    assert len({ast_form(body.text()) for body in bodies()}) >= 2000


def test_both_normal_forms_agree_on_what_is_the_same() -> None:
    by_text: dict[str, set[str]] = defaultdict(set)
    by_tree: dict[str, set[str]] = defaultdict(set)
    for body in bodies():
        text, tree = normal_form(body.text()), ast_form(body.text())
        by_text[text].add(tree)
        by_tree[tree].add(text)
    assert all(len(trees) == 1 for trees in by_text.values())
    assert all(len(texts) == 1 for texts in by_tree.values())


def test_names_constants_and_defaults_make_no_new_body() -> None:
    one = normal_form("def over(xs, n):\n    return [x for x in xs if x > n]\n")
    assert one == normal_form("def pick(values, limit=4):\n    return [v for v in values if v > limit]\n")
    assert normal_form('def f(x):\n    return x + "a"\n') == normal_form('def g(w):\n    return w + "other"\n')
    assert normal_form("def f(x):\n    return x + 1\n") == normal_form("def f(x):\n    return x + 22\n")
    assert one != normal_form("def over(xs, n):\n    return [x for x in xs if x >= n]\n")


def test_methods_builtins_and_keyword_arguments_are_part_of_a_body() -> None:
    assert normal_form("def f(w):\n    return w.upper()\n") != normal_form("def f(w):\n    return w.lower()\n")
    assert normal_form("def f(x):\n    return max(x)\n") != normal_form("def f(x):\n    return min(x)\n")
    assert normal_form("def f(x):\n    return max(x, key=len)\n") != normal_form(
        "def f(x):\n    return max(x, default=len)\n"
    )


def test_the_split_of_a_form_never_changes() -> None:
    """A changed rule would put bodies that old runs trained on into evaluation."""
    assert split_of("    return [v0 for v0 in v1 if v0 > v2]\n") == "train"
    shares = Counter(split_of(normal_form(body.text())) for body in bodies())
    assert 0.2 < shares["eval"] / len(bodies()) < 0.4


def test_every_body_gives_values_and_leaves_its_arguments_alone() -> None:
    rng = random.Random(1)
    for body in bodies():
        inputs = draw.draw_inputs(body, rng, omit=False)
        before = repr(inputs)
        (function,) = proof.functions([body.text()], draw.Numbers.draw(rng).fill)
        found = proof.results(function, inputs)
        assert not proof.hasty(found), body
        assert any(not isinstance(value, proof.Raised) for value in found), body
        assert repr(inputs) == before, body


def test_no_function_is_called_like_a_builtin_or_a_keyword() -> None:
    names = {name for body in bodies() for name in body.names}
    assert not [name for name in names if hasattr(builtins, name) or keyword.iskeyword(name) or not name.isidentifier()]


@pytest.mark.parametrize(
    ("condition", "opposite"),
    [
        ("x > n", "x <= n"),
        ("x % n == 0", "x % n != 0"),
        ("x in ys", "x not in ys"),
        ("not w.isdigit()", "w.isdigit()"),
        ("w.isdigit()", "not w.isdigit()"),
        ("lo <= x <= hi", "not lo <= x <= hi"),
        ("x > n and x < m", "not (x > n and x < m)"),
    ],
)
def test_the_opposite_of_a_condition(condition: str, opposite: str) -> None:
    assert negate(condition) == opposite
