"""Finding out by running: does a bug show, which examples tell it from every other edit, which tests fail."""

import builtins
from collections.abc import Callable, Sequence
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

from .families import FAMILIES
from .project import Case

Results = tuple[Any, ...]
_HASTY = ("TypeError", "AttributeError", "NameError", "UnboundLocalError")  # would be seen before any test


class Raised(NamedTuple):
    """What a function raised, in the place of its value."""

    kind: str


def functions(sources: Sequence[str], fill: Callable[[str], str]) -> list[Callable[..., Any]]:
    """Every source's function `F`, all compiled at once after `fill` put numbers into the slots."""
    space: dict[str, Any] = {}
    text = "".join(source.replace("def F(", f"def F{i}(", 1) for i, source in enumerate(sources))
    exec(compile(fill(text), "<bodies>", "exec"), space)  # noqa: S102 - our own text
    return [space[f"F{i}"] for i in range(len(sources))]


def value(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What it returns, or the kind of error that it raises. No function here writes to its arguments."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - whatever our own text raises is a result
        return Raised(type(error).__name__)


def results(function: Callable[..., Any], inputs: Sequence[tuple[Any, ...]]) -> Results:
    return tuple(value(function, args) for args in inputs)


def same(one: Any, other: Any) -> bool:
    """As the runner compares: 3.0 is not 3."""
    return type(one) is type(other) and bool(one == other)


def hasty(found: Results) -> bool:
    """True if something was raised that no one would have left in."""
    return any(isinstance(r, Raised) and r.kind in _HASTY for r in found)


def neighbours(text: str) -> list[str]:
    """Every source that one edit of any family makes of `text`."""
    return list(dict.fromkeys(e.apply(text) for family in FAMILIES.values() for e in family(text)))


def outcomes(module: str, versions: Sequence[str], tests: str) -> list[dict[str, bool]]:
    """Test id → passed for each version of a module: a tests file is run in fresh namespaces, as the runner does."""
    code = compile(tests, "tests", "exec")
    return [_outcomes(module, text, code) for text in versions]


def _outcomes(module: str, text: str, tests: CodeType) -> dict[str, bool]:
    space: dict[str, Any] = {}
    exec(compile(text, module, "exec"), space)  # noqa: S102 - our own text
    modules = {module: SimpleNamespace(**space), "t": SimpleNamespace(eq=_eq)}

    def load(name: str, *_: Any) -> Any:
        return modules[name]

    scope: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": load}}
    exec(tests, scope)  # noqa: S102 - our own text
    return {name: _passes(test) for name, test in scope.items() if name.startswith("test_")}


def _eq(got: Any, want: Any) -> None:
    if not same(got, want):
        raise AssertionError


def _passes(test: Callable[[], None]) -> bool:
    try:
        test()
    except Exception:  # noqa: BLE001 - a test that raises has not passed
        return False
    return True


class Examples(NamedTuple):
    """Chosen examples: `shown` fail on the bug (the first one is the symptom) and rule every other edit out."""

    shown: tuple[Case, ...]
    more: tuple[Case, ...]
    got: Any  # what the bug gives for the first shown example


def choose(
    inputs: Sequence[tuple[Any, ...]], good: Results, bad: Results, others: Sequence[Callable[..., Any]]
) -> Examples | str:
    """Examples from all inputs, or why there are none: `invisible` or `ambiguous`.

    `others` are what other single edits make of the bug. After the choice, each of them fails a shown example
    or cannot be told from the fix by any input.
    """
    cases = [Case(args, want) for args, want in zip(inputs, good, strict=True)]
    usable = [i for i, want in enumerate(good) if not isinstance(want, Raised)]
    sizes = [case.size for case in cases]
    failing = [i for i in usable if not same(good[i], bad[i]) and not isinstance(bad[i], Raised)]
    if not failing:
        return "invisible"
    shown = [min(failing, key=lambda i: sizes[i] + len(repr(bad[i])))]
    first = shown[0]
    alive = [results(f, inputs) for f in others if same(value(f, inputs[first]), good[first])]
    for _ in range(3):
        alive = [r for r in alive if any(not same(r[i], good[i]) for i in usable)]
        if not alive:
            break
        best = max(usable, key=lambda i: (sum(not same(r[i], good[i]) for r in alive), -sizes[i]))
        shown.append(best)
        alive = [r for r in alive if same(r[best], good[best])]
    if alive:
        return "ambiguous"
    rest = [i for i in usable if i not in shown]
    more = [i for i in rest if i in failing][:2] + [i for i in rest if i not in failing][:3]
    return Examples(tuple(cases[i] for i in shown), tuple(cases[i] for i in more), bad[shown[0]])
