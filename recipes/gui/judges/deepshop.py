"""DeepShop's judge: each requirement of a query is judged by itself, and all must hold (formats reference, 5.3)."""

from orchard_cli.policy.policy import Policy

from .asking import Asking
from .evidence import Evidence
from .verdict import Verdict, json_verdict
from .webvoyager import last, unanswered

REQUIREMENTS = {
    "attribute": "the product has the wanted properties",
    "filter": "the wanted filters were applied",
    "sort": "the results were ordered as wanted",
}


class DeepShop:
    """screenshots: how many of the last are shown; 0: all."""

    name = "deepshop"

    def __init__(self, policy: Policy, *, screenshots: int = 3):
        self.policy, self.screenshots = policy, screenshots

    def judge(self, seen: Evidence) -> Verdict:
        """Raises `GradeError` if one of the requirements cannot be judged. No answer: failed, nobody is asked.

        A query without any requirement is judged as a whole.
        """
        if not seen.answer:
            return unanswered(self.name)
        asked = required(seen) or {"whole": seen.task}
        asking, shots = Asking(self.policy), last(seen, self.screenshots)
        parts: dict[str, bool] = {}
        thoughts = []
        for kind, text in asked.items():
            words = {"task": seen.task, "answer": seen.answer, "actions": seen.actions, "requirement": text}
            about = REQUIREMENTS.get(kind, "the query was answered")
            (parts[kind], thought), _ = asking.ask("deepshop", json_verdict, shots, about=about, **words)
            thoughts.append(f"{kind}: {thought}")
        return Verdict(self.name, all(parts.values()), "\n".join(thoughts), asking.usage, {"requirements": parts})


def required(seen: Evidence) -> dict[str, str]:
    """The requirements that the query has, in a fixed order; `None` in words is none."""
    found = {kind: " ".join(seen.requirements.get(kind, "").split()) for kind in REQUIREMENTS}
    return {kind: text for kind, text in found.items() if text.lower() not in ("", "none", "null", "n/a")}
