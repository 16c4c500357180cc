"""WebJudge, the judge of Online-Mind2Web, in three stages: key points, relevance of each screenshot, verdict."""

from orchard_cli.policy.policy import Policy

from .asking import Asking
from .evidence import Evidence, Shot
from .verdict import Verdict, key_points, score, status
from .webvoyager import last, unanswered

LEAST = 3  # of 5: a screenshot with that score is shown to the last stage
MOST = 50  # screenshots that the last stage is shown


class WebJudge:
    """least: score from which a screenshot counts. most: of those, the last so many are shown."""

    name = "webjudge"

    def __init__(self, policy: Policy, *, least: int = LEAST, most: int = MOST):
        self.policy, self.least, self.most = policy, least, most

    def judge(self, seen: Evidence) -> Verdict:
        """Raises `GradeError` if any stage fails. An agent that gave no answer has failed; nobody is asked."""
        if not seen.answer:
            return unanswered(self.name)
        shots, asking = last(seen, 0), Asking(self.policy)
        points, _ = asking.ask("webjudge_points", key_points, task=seen.task)
        scored = [self._score(asking, seen.task, points, shot) for shot in shots]
        kept = [(shot, why) for shot, (n, why) in zip(shots, scored, strict=True) if n >= self.least][-self.most :]
        verdict, said = asking.ask(
            "webjudge_verdict",
            status,
            [shot for shot, _ in kept],
            task=seen.task,
            points=points,
            actions=seen.actions,
            answer=seen.answer,
            reasons=[why for _, why in kept],
        )
        details = {"key_points": points, "scores": [n for n, _ in scored], "kept": len(kept)}
        return Verdict(self.name, verdict, said, asking.usage, details)

    def _score(self, asking: Asking, task: str, points: list[str], shot: Shot) -> tuple[int, str]:
        """(score, the reasons given for it)."""
        return asking.ask("webjudge_score", score, [shot], task=task, points=points)
