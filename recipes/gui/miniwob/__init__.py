"""MiniWoB++: 130 small pages, each with its own reward; the one real browser benchmark that runs offline.

The reward is the page's own (`WOB_RAW_REWARD_GLOBAL`), without the discount for time; an attempt is solved if it is
above 0, as BrowserGym counts. Pages are drawn by `Math.seedrandom(seed)`; their clock starts at the same moment in
every attempt; the time limit of an episode is a day, and animations are off, so that slowness is no failure.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from orchard_cli.domain import Grade
from orchard_cli.errors import ConfigError, GradeError
from orchard_cli.task import Split, Task

from ..visit import Site, Visit
from .source import pages

EVAL_SEEDS = 1_000_000  # seeds from here on are for evaluation
VIEWPORT = (332, 214)
PLACE = "/opt/orchard/miniwob"
PORT = 18080
CLOCK_MS = 1_735_732_800_000  # 2025-01-01 12:00 UTC
SKIP = "#reward-display, #sync-task-cover, #click-canvas, #query"
BEGIN = """(async () => {
  Math.seedrandom("%s");
  core.EPISODE_MAX_TIME = 86400000;
  if (window.jQuery) jQuery.fx.off = true;
  core.startEpisodeReal();
  while (!WOB_TASK_READY) await new Promise(done => setTimeout(done, 10));
  const said = core.getUtterance();
  return typeof said === "string" ? said : said.utterance;
})()"""
PROBE = "({done: WOB_DONE_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL, reason: WOB_REWARD_REASON})"


@cache
def names() -> tuple[str, ...]:
    """All pages, by name."""
    return tuple(sorted(page.stem for page in (pages() / "miniwob").glob("*.html")))


def site() -> Site:
    command = ("{python}", "-B", "-m", "driver.files", PLACE, "{port}")
    return Site("miniwob", command, PORT, ((PLACE, pages()),))


def visit(task: Task) -> Visit:
    return Visit(
        url=f"http://127.0.0.1:{PORT}/miniwob/{task.data['page']}.html",
        viewport=VIEWPORT,
        clock_ms=CLOCK_MS,
        begin=BEGIN % task.data["seed"],
        probe=PROBE,
        every=True,
        whole=True,
        skip=SKIP,
        where=False,
    )


def generate(split: Split, count: int, seed: int, families: Sequence[str], held_out: Sequence[str]) -> Iterator[Task]:
    """`count` tasks, each page in turn; `held_out` pages are for evaluation alone. Raises `ConfigError`."""
    known = names()
    if unknown := {*families, *held_out} - set(known):
        named = ", ".join(sorted(unknown))
        raise ConfigError(f"MiniWoB has no page {named}", hint=f"there are: {', '.join(known)}")
    wanted = [n for n in families or known if split == "eval" or n not in held_out]
    wanted += [n for n in held_out if split == "eval" and n not in wanted]
    for i in range(count if wanted else 0):
        page, number = wanted[i % len(wanted)], i // len(wanted)
        drawn = number + 10_000 * (seed % 90) + (EVAL_SEEDS if split == "eval" else 0)
        yield Task(
            id=f"miniwob-{page}-{drawn}",
            domain="gui",
            prompt="Do what the page asks for.",
            split=split,
            family=page,
            data={"page": page, "seed": drawn},
        )


def grade(state: Mapping[str, Any]) -> Grade:
    """By the page's own reward. Raises `GradeError` if it was never read."""
    status = state.get("status")
    if not isinstance(status, Mapping):
        raise GradeError("the page's reward could not be read", code="no_reward")
    raw = float(status.get("raw") or 0.0) if status.get("done") else 0.0
    return Grade(
        float(raw > 0), raw > 0, {"raw": raw, "done": bool(status.get("done")), "reason": status.get("reason")}
    )
