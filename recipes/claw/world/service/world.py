"""The world: one call at a time against the state, each one in the audit log, each one whole or not at all."""

import json
import threading
from collections.abc import Callable
from typing import Any

from . import calendar, faults, files, mail, money, notes, people, shop, times, web
from .answer import Answer, Refusal
from .arguments import MOST_CHARS, checked
from .load import load, put
from .operations import OPERATIONS, Operation, chosen
from .scene import Scene
from .state import State

MOST_CALLS, MOST_BYTES = 2000, 32_000_000
MODULES = (mail, calendar, people, files, notes, money, shop, web)
DOES: dict[str, Callable[..., str]] = {n: getattr(m, n) for n in OPERATIONS for m in MODULES if hasattr(m, n)}
FACES = ("native", "cli", "rest", "mcp")


class World:
    """Thread-safe. `world` is what `spec.checked` gave."""

    def __init__(self, world: dict[str, Any]):
        self._world, self._lock = world, threading.Lock()
        self._plan = faults.Plan(world["faults"], world["seed"])
        self.operations = chosen(world["tools"])
        self.audit: list[dict[str, Any]] = []
        self._size = 0  # characters of the audit log
        self._past: State | None = None  # as it was at the start, for stale answers
        clock = world["clock"]
        state = State()
        load(state, world)
        now = times.moment(clock["now"], "now", clock["tz"])
        self.scene = Scene(state, world["owner"], world["user"], clock["tz"], now)

    def call(self, tool: str, arguments: Any, face: str = "native") -> Answer:
        """Do one thing. Whatever is wrong with it is in the answer, and then nothing has changed."""
        with self._lock:
            if len(self.audit) >= MOST_CALLS or self._size > MOST_BYTES:
                return Answer("refused", "refused: too many calls")
            self.scene.pass_time(self._world["clock"]["tick_s"])
            entry = {"seq": len(self.audit) + 1, "at": self.scene.clock, "face": face, "tool": str(tool)[:60]}
            entry |= {"arguments": _kept(arguments), "code": "ok", "fault": "", "effects": []}
            try:
                answer = self._do(tool, arguments, face, entry)
            except Refusal as refusal:
                answer = refusal.answer
            except Exception as error:  # noqa: BLE001 - the boundary of one call: a defect of ours is no answer to it
                answer = Answer("internal_error", f"internal_error: {type(error).__name__}")
            self.audit.append(entry | {"code": answer.code})
            self._size += len(canonical(self.audit[-1]))
            self._let_others_act()
            return answer

    def _do(self, tool: str, arguments: Any, face: str, entry: dict[str, Any]) -> Answer:
        operation = self.operations.get(tool) if isinstance(tool, str) else None
        if operation is None:
            import difflib  # here, since few worlds need it

            near = difflib.get_close_matches(str(tool)[:60], self.operations, 1)
            raise Refusal("unknown_tool", f"no tool {str(tool)[:60]}" + (f"; {near[0]}?" if near else ""))
        values = checked(operation, arguments, words=face == "cli")
        entry["arguments"] = {name: values[name] for name in arguments}
        if self.scene.done:
            raise Refusal("refused", "the task is over")
        fault = self._plan.next(operation.name)
        kind = fault["kind"] if fault else ""
        if kind == "stale" and operation.writes:
            fault, kind = None, ""
        entry["fault"] = kind
        if fault and kind not in ("lost_answer", "stale"):
            return faults.answer(fault)
        if kind == "stale":
            return Answer("ok", self._stale(operation, values))
        text = self._whole(operation, values, entry)
        return faults.answer(fault) if fault else Answer("ok", text)

    def _whole(self, operation: Operation, values: dict[str, Any], entry: dict[str, Any]) -> str:
        state = self.scene.state
        state.begin()
        try:
            text = DOES[operation.name](self.scene, **values)
        except BaseException:
            state.rollback()
            raise
        state.commit()
        entry["effects"] = state.effects
        return text

    def _stale(self, operation: Operation, values: dict[str, Any]) -> str:
        if self._past is None:
            self._past = State()
            load(self._past, self._world)
        scene = self.scene
        past = Scene(self._past, scene.owner, scene.user, scene.tz, scene.now)
        return f"{DOES[operation.name](past, **values)}\n[an old copy; ask again for the newest]"

    def _let_others_act(self) -> None:
        """What other people do meanwhile: mails that come in, rows that they change."""
        for change in self._world["later"]:
            if change["after"] == len(self.audit):
                self.scene.state.begin()
                put(self.scene.state, change["section"], change["row"], self._world)
                self.scene.state.commit()

    def export(self) -> str:
        """Answer, state and audit log as canonical JSON: the same bytes for the same deeds."""
        with self._lock:
            scene = self.scene
            whole = {"answer": scene.answer, "done": scene.done, "now": scene.clock, "calls": len(self.audit)}
            return canonical(whole | {"state": scene.state.dump(), "audit": self.audit})


def canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _kept(arguments: Any) -> Any:
    """Arguments as the audit log keeps them: whatever they are, valid JSON of bounded size."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError):
        return {"cut": ascii(arguments)[:1000]}
    return json.loads(text) if len(text) <= MOST_CHARS * 2 else {"cut": text[:1000]}
