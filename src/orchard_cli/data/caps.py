"""At most so many resolved attempts of a task, and of a family, are learned from: the shortest ones (paper 5.3)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from ..outcome import Outcome
from ..trajectory import Trajectory


def over(trajectories: Iterable[Trajectory], *, per_task: int = 0, per_family: int = 0) -> Mapping[int, str]:
    """Place in the order → `per_task` or `per_family`, for each resolved attempt beyond these numbers; 0: no bound.

    Short is: few steps, then few tokens, then early. Only what its task keeps counts for its family.
    An attempt without a family is bound by none.
    """
    solved = {at: t for at, t in enumerate(trajectories) if t.outcome is Outcome.SOLVED}
    spare = _beyond({at: t.task_id for at, t in solved.items()}, solved, per_task)
    left = {at: t.family for at, t in solved.items() if t.family and at not in spare}
    return dict.fromkeys(spare, "per_task") | dict.fromkeys(_beyond(left, solved, per_family), "per_family")


def _beyond(group_of: Mapping[int, Hashable], found: Mapping[int, Trajectory], most: int) -> list[int]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for at, group in group_of.items():
        groups[group].append(at)

    def length(at: int) -> tuple[int, int]:
        return len(found[at].steps), found[at].usage.completion_tokens

    return [at for ats in groups.values() for at in sorted(ats, key=length)[most:]] if most else []
