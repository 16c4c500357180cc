"""Who says what an attempt is worth: the world's own state, or a judge that looks at what the policy did and saw."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.errors import ConfigError, GradeError
from orchard_cli.policy import open_teacher
from orchard_cli.policy.policy import Policy
from orchard_cli.task import Task
from orchard_cli.trajectory import Blobs

from .judges import Evidence, Judge, Shot, judge_of
from .judges.webjudge import MOST
from .settings import Config

STATE = "state"


class Judging:
    """Thread-safe. own: the judge of the task set, `state` where there is one that can be read.

    Raises `ConfigError` where `domain.judge=state` asks for a state that no one can read.
    """

    def __init__(self, config: Config, own: str):
        if config.judge == STATE and own != STATE:
            raise ConfigError("domain.judge=state, but these tasks leave no state behind", hint=f"domain.judge={own}")
        self.kind, self.stateful = own if config.judge == "auto" else config.judge, own == STATE
        self._config = config
        self._lock = threading.Lock()
        self._policy: Policy | None = None

    def open(self, blobs: Blobs | None) -> Judge | None:
        """The judge, ready to be asked; None for the state. Raises `ConfigError` if there is nobody to ask."""
        if self.kind == STATE:
            return None
        with self._lock:
            if self._policy is None:
                self._policy = _asked(self._config, self.kind, blobs)
        return judge_of(self.kind, self._policy, screenshots=self._config.judge_screenshots)

    def grade(self, task: Task, state: Mapping[str, Any], blobs: Blobs | None, stated: Callable[[], Grade]) -> Grade:
        """By the state, or by the judge: `judge` holds its verdict then, `state` what the world says, where it does.

        Raises `GradeError` where neither can tell; it is never taken for a failure of the policy.
        """
        judge = self.open(blobs)
        if judge is None:
            return stated()
        verdict = judge.judge(shown(task, state))
        details: dict[str, Any] = {"judge": msgspec.to_builtins(verdict)}
        if self.stateful:
            world = stated()
            details["state"] = {"reward": world.reward, "solved": world.solved, **world.details}
        return Grade(float(verdict.success), verdict.success, details)

    def close(self) -> None:
        with self._lock:
            policy, self._policy = self._policy, None
        if policy is not None:
            policy.close()


def shown(task: Task, state: Mapping[str, Any]) -> Evidence:
    """What a judge may look at, of the state that an attempt left. Raises `GradeError` if that is not what it is."""
    try:
        actions = msgspec.convert(state.get("actions", ()), tuple[str, ...])
        shots = msgspec.convert(state.get("shots", ()), tuple[Shot, ...])
        answer = msgspec.convert(state.get("answer"), str | None) or ""
    except msgspec.ValidationError as error:
        raise GradeError(f"the end state is no evidence: {error}", code="judge.no_evidence") from error
    wanted = task.hidden.get("requirements", {})
    return Evidence(task.prompt, answer.strip(), actions, shots, str(task.data.get("start_url", "")), wanted)


def _asked(config: Config, kind: str, blobs: Blobs | None) -> Policy:
    if not config.judge_model:
        hint = "domain.judge_model=NAME; domain.judge_base_url and domain.judge_api_key_env say where it is"
        raise ConfigError(f"domain.judge={kind} asks a model, and none is named", hint=hint)
    where = schema.Teacher(
        kind="http",
        model=config.judge_model,
        base_url=config.judge_base_url,
        api_key_env=config.judge_api_key_env,
    )
    try:
        return open_teacher(where, blobs, MOST)
    except ConfigError as error:  # the client's own words are about a teacher
        said, hint = (
            text.replace("teacher.", "domain.judge_").replace("the teacher", "the judge")
            for text in (str(error), error.hint)
        )
        raise ConfigError(said, hint=hint) from error
