"""A family: one kind of request as a page of YAML, from which every seed draws a task.

The page holds what is drawn, the world, the request in several wordings, the checks, how it is done right (`plan`)
and how it is done wrong. The same page with nothing to draw is a single task.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchard_cli.errors import DataError
from orchard_cli.task import Split, Task

from ..world import spec
from ..world.service.operations import OPERATIONS
from .draws import draw
from .fields import Call, check_allowed, check_calls, check_checks, check_fields, check_rules
from .fill import fill
from .noise import noisy
from .reading import FieldError

DONE = {"done": {"answer": "done"}}


@dataclass(frozen=True)
class Family:
    """Checked, not yet drawn. `page` is what the file says; `file` and `number` are where it stands."""

    name: str
    page: Mapping[str, Any] = field(repr=False)
    file: str = ""
    number: int = 1

    @property
    def easy(self) -> bool:
        return bool(self.page.get("easy"))

    @property
    def held_out(self) -> bool:
        return bool(self.page.get("held_out"))

    @property
    def tags(self) -> list[str]:
        return list(self.page.get("tags", ()))

    @property
    def about(self) -> str:
        return str(self.page.get("about", ""))


def family(page: Mapping[str, Any], file: str = "", number: int = 1) -> Family:
    """Check a page as far as it can be without drawing, and one draw of it. Raises `FieldError`."""
    check_fields(page)
    if page.get("split", "eval") not in ("train", "eval"):
        raise FieldError("split", "is train or eval")
    made = Family(str(page["family"]), page, file, number)
    make(made, seed=0, split="train")
    return made


def make(family: Family, *, seed: int, split: Split) -> Task:
    """The task that `seed` draws: the same for ever. Raises `FieldError`."""
    page, rng = family.page, random.Random(f"{family.name}/{seed}")
    values = draw(page.get("draw", {}), rng)
    say = page["say"] if isinstance(page["say"], list) else [page["say"]]
    prompt = str(fill(rng.choice(say), values, "say")).strip()
    world = checked_world(noisy(fill(page.get("world", {}), values, "world"), page.get("noise", {}), values, rng))
    hidden = _hidden(page, values)
    return Task(
        f"{family.name}-{seed}",
        "claw",
        prompt,
        split,
        family.name,
        data={"world": world},
        hidden=hidden | {"tags": family.tags, "drawn": values},
    )


def checked_world(data: dict[str, Any]) -> dict[str, Any]:
    """With every default filled in. Raises `FieldError`."""
    try:
        return spec.checked(data, where="")
    except DataError as error:
        raise FieldError("", str(error).removeprefix(": ")) from error


def _hidden(page: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What grader and scripts need, filled and checked."""
    plan = check_calls(fill(page["plan"], values, "plan"), "plan")
    if plan[-1][0] != "done":
        plan.append(("done", dict(DONE["done"])))
    want, keep = fill(page.get("want", []), values, "want"), fill(page.get("keep", []), values, "keep")
    never = fill(page.get("never", []), values, "never")
    check_checks(want, "want")
    check_checks(keep, "keep")
    check_rules(never, "never")
    allow = fill(page.get("allow", []), values, "allow")
    check_allowed(allow, "allow")
    if not any("only" in check for check in keep):
        keep.append({"only": [*allow, *_effects(plan)]})
    if not any("final" in rule for rule in never):
        finals = {e["op"] for e in (*allow, *_effects(plan)) if OPERATIONS[e["op"]].irreversible}
        never.append({"final": sorted(finals)})
    return {
        "want": want,
        "keep": keep,
        "never": never,
        "plan": [{name: arguments} for name, arguments in plan],
        "wrong": _wrong(page, plan, values),
        **({"grader": page["grader"]} if "grader" in page else {}),
    }


def _effects(plan: list[Call]) -> list[dict[str, Any]]:
    """By default only as many effects of a kind as the plan has are allowed."""
    names = [name for name, _ in plan if OPERATIONS[name].writes and name != "done"]
    return [{"op": name, "count": names.count(name)} for name in dict.fromkeys(names)]


def _wrong(page: Mapping[str, Any], plan: list[Call], values: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Ways to do it wrong: those of the page, the plan with some arguments changed, the plan cut short."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, calls in page.get("wrong", {}).items():
        checked = check_calls(fill(calls, values, f"wrong.{name}"), f"wrong.{name}")
        found[str(name)] = _ended([{n: a} for n, a in checked])
    for name, changes in page.get("slips", {}).items():
        changed = fill(changes, values, f"slips.{name}")
        if not isinstance(changed, dict):
            raise FieldError(f"slips.{name}", "is `argument: value` or `operation.argument: value`")
        found[str(name)] = [_slipped(call, changed) for call in plan]
        if found[str(name)] == [{n: a} for n, a in plan]:
            raise FieldError(f"slips.{name}", "changes nothing in the plan")
    last = max((i for i, (n, _) in enumerate(plan) if OPERATIONS[n].writes and n != "done"), default=-1)
    if last >= 0:
        found["stops_early"] = _ended([{n: a} for n, a in plan[:last]])
    return found


def _slipped(call: Call, changes: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = call
    return {name: {a: changes.get(f"{name}.{a}", changes.get(a, v)) for a, v in arguments.items()}}


def _ended(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return calls if calls and "done" in calls[-1] else [*calls, DONE]
