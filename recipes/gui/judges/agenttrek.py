"""AgentTrek's judge: what was done and the final screenshot, in one call (formats reference, 5.2)."""

from orchard_cli.policy.policy import Policy

from .asking import Asking
from .evidence import Evidence
from .verdict import Verdict, status
from .webvoyager import last, unanswered


class AgentTrek:
    name = "agenttrek"

    def __init__(self, policy: Policy):
        self.policy = policy

    def judge(self, seen: Evidence) -> Verdict:
        """Raises `GradeError`. An agent that gave no answer has failed; nobody is asked."""
        if not seen.answer:
            return unanswered(self.name)
        asking, shots = Asking(self.policy), last(seen, 1)
        words = {"task": seen.task, "answer": seen.answer, "actions": seen.actions, "url": seen.url}
        verdict, said = asking.ask("agenttrek", status, shots, **words)
        return Verdict(self.name, verdict, said, asking.usage)
