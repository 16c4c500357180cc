"""How a scripted teacher goes wrong: one call of one turn, in a way that models go wrong too."""

import random
from collections.abc import Sequence

from orchard_cli.trajectory import ToolCall

from ...screen import Screen
from .moment import call, done


def slip(calls: Sequence[ToolCall], screen: Screen, rng: random.Random) -> list[ToolCall]:
    """The calls with one of them wrong: another thing is clicked, a letter is lost, one is left out, it gives up."""
    kind = rng.choice(("other", "other", "typo", "forgets", "gives_up"))
    at = rng.randrange(len(calls))
    hit = calls[at]
    if kind == "other" and "id" in hit.arguments:
        others = [t.id for t in screen.things if t.id != hit.arguments["id"]]
        if others:
            return [*calls[:at], call(hit.name, **(hit.arguments | {"id": rng.choice(others)})), *calls[at + 1 :]]
    if kind == "typo":
        for index, each in enumerate(calls):
            text = each.arguments.get("message", "")
            if text:
                place = rng.randrange(len(text))
                wrong = each.arguments | {"message": text[:place] + text[place + 1 :]}
                return [*calls[:index], call(each.name, **wrong), *calls[index + 1 :]]
    if kind == "forgets" and len(calls) > 1:
        return [*calls[:at], *calls[at + 1 :]]
    return [done()]
