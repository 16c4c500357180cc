"""Judges of what an agent did in a browser: `state` looks at the world, the others ask a model that sees pictures."""

from collections.abc import Callable

from orchard_cli import schema
from orchard_cli.errors import ConfigError
from orchard_cli.policy import open_teacher
from orchard_cli.policy.policy import Policy
from orchard_cli.trajectory import Blobs

from .agenttrek import AgentTrek
from .deepshop import DeepShop
from .evidence import Evidence, Shot, evidence
from .verdict import Judge, Verdict
from .webjudge import MOST, WebJudge
from .webvoyager import WebVoyager

__all__ = ["JUDGES", "Evidence", "Judge", "Shot", "Verdict", "evidence", "judge_of", "open_judge"]


JUDGES: dict[str, Callable[..., Judge]] = {
    "webvoyager": WebVoyager,
    "webjudge": WebJudge,
    "agenttrek": AgentTrek,
    "deepshop": DeepShop,
}


def judge_of(kind: str, policy: Policy, *, screenshots: int = 3) -> Judge:
    """A judge that asks `policy`, which must see pictures. screenshots: the last so many, where it can be chosen."""
    if kind not in JUDGES:
        raise ConfigError(f"there is no judge `{kind}`", hint=f"there are: state, {', '.join(JUDGES)}")
    chooses = kind in ("webvoyager", "deepshop")
    return JUDGES[kind](policy, screenshots=screenshots) if chooses else JUDGES[kind](policy)


def open_judge(kind: str, cfg: schema.Teacher, blobs: Blobs | None, *, screenshots: int = 3) -> Judge:
    """A judge behind any OpenAI-compatible endpoint that takes pictures. Raises `ConfigError`, `MissingExtra`."""
    return judge_of(kind, open_teacher(cfg, blobs, MOST), screenshots=screenshots)
