"""The deterministic judge: what happened in the world itself, where it can be read. The measure of all others."""

from collections.abc import Callable, Mapping
from typing import Any

from .verdict import Verdict

Graded = tuple[float, Mapping[str, Any]]  # reward, details


class State:
    """grade: looks at the world that the attempt left, for example the shop's `grade(task, state, answer)`."""

    name = "state"

    def __init__(self, grade: Callable[[], Graded]):
        self.grade = grade

    def judge(self, seen: object = None) -> Verdict:
        """Asks no model. Raises what `grade` raises."""
        reward, details = self.grade()
        return Verdict(self.name, reward >= 1.0, details=dict(details))
