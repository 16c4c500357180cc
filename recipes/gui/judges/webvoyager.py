"""WebVoyager's judge: task, answer and the last screenshots in one call (formats reference, 5.1)."""

from orchard_cli.errors import GradeError
from orchard_cli.policy.policy import Policy

from .asking import Asking
from .evidence import Evidence, Shot
from .verdict import Verdict, success_word


class WebVoyager:
    """screenshots: how many of the last are shown; 0: all. actions: also show what was done (paper, section 5.4)."""

    name = "webvoyager"

    def __init__(self, policy: Policy, *, screenshots: int = 3, actions: bool = True):
        self.policy, self.screenshots, self.actions = policy, screenshots, actions

    def judge(self, seen: Evidence) -> Verdict:
        """Raises `GradeError`. An agent that gave no answer has failed; nobody is asked."""
        if not seen.answer:
            return unanswered(self.name)
        shots = last(seen, self.screenshots)
        asking = Asking(self.policy)
        actions = seen.actions if self.actions else ()
        verdict, said = asking.ask(
            "webvoyager", success_word, shots, task=seen.task, answer=seen.answer, actions=actions, url=seen.url
        )
        return Verdict(self.name, verdict, said, asking.usage, {"screenshots": len(shots)})


def unanswered(judge: str) -> Verdict:
    return Verdict(judge, False, "The agent gave no answer.")


def last(seen: Evidence, screenshots: int) -> tuple[Shot, ...]:
    """The last so many shots; 0: all. Raises `GradeError` if there are none: then nobody can tell."""
    if not seen.shots:
        raise GradeError("the attempt left nothing that a judge could look at", code="judge.no_evidence", effect="none")
    return seen.shots[-screenshots:] if screenshots else seen.shots
