"""Results as the benchmarks' own evaluators read them (formats reference, 5.1 and 5.2)."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orchard_cli.errors import DataError, disk_error
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, Step, Trajectory

from ..judges.evidence import answer_of
from ..shop.screen import Screen

Get = Callable[[str], bytes]
PNG = b"\x89PNG\r\n\x1a\n"
NO_PICTURE = {"url": "data:image/png;base64,{b64_img}"}  # as WebVoyager writes it, without the picture
V2 = "online-mind2web-v2"


def webvoyager(folder: Path, task: Task, t: Trajectory, get: Get) -> Path:
    """`task<id>/{interact_messages.json, screenshot1.png …, agent.log}`; its folder. Raises `RunError`, `DataError`."""
    target = _folder(folder, f"task{_name(task.id)}")
    for number, sha in enumerate(_pictures(t.messages), 1):
        _write(target / f"screenshot{number}.png", png(get(sha)))
    _write(target / "interact_messages.json", json.dumps(_spoken(task, t), ensure_ascii=False, indent=1).encode())
    lines = [f"{n}: {line}" for n, step in enumerate(t.steps, 1) for line in step.action.splitlines()]
    _write(target / "agent.log", "\n".join([*lines, f"{t.outcome.value}, {t.stop}", ""]).encode("utf-8", "replace"))
    return target


def mind2web(folder: Path, task: Task, t: Trajectory, get: Get, *, version: int = 2) -> Path:
    """`<task_id>/{result.json, trajectory/…png}` of a submission, version 1 or 2; its folder. Raises as above."""
    target = _folder(folder, _name(task.id))
    _folder(target, "trajectory")
    turns = list(_turns(t))
    named = "{:04d}.png" if version == 2 else "{}_full_screenshot.png"
    for number, (_, shown, _) in enumerate(turns):
        if shown and shown.images:
            _write(target / "trajectory" / named.format(number), png(get(shown.images[-1])))
    result = _v2(task, t, turns, named) if version == 2 else _v1(task, t, turns)
    _write(target / "result.json", json.dumps(result, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    return target


def png(picture: bytes) -> bytes:
    """The picture as PNG. Raises `DataError` for what is no picture."""
    if picture.startswith(PNG):
        return picture
    from PIL import Image, UnidentifiedImageError

    out = io.BytesIO()
    try:
        Image.open(io.BytesIO(picture)).convert("RGB").save(out, "PNG")
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise DataError(f"a screenshot is no picture: {error}") from error
    return out.getvalue()


Turn = tuple[Step, Message | None, Message]  # step, what was last seen before it, the reply


def _turns(t: Trajectory) -> Iterator[Turn]:
    for step in t.steps:
        seen = [m for m in t.messages[: step.reply] if m.role in ("user", "tool")]
        yield step, seen[-1] if seen else None, t.messages[step.reply]


def _v2(task: Task, t: Trajectory, turns: list[Turn], named: str) -> dict[str, Any]:
    history = [
        {
            "step": number,
            "screenshot": named.format(number) if shown and shown.images else "",
            "url": Screen.read(shown.content).url if shown else "",
            "action": step.action,
            "action_status": step.executed.reason if step.executed else "",
            "thought": _thought(reply),
        }
        for number, (step, shown, reply) in enumerate(turns)
    ]
    return {
        "schema_version": V2,
        "task": task.prompt,
        "task_id": task.id,
        "agent_final_answer": answer_of(t.steps),
        "reference_length": task.data.get("reference_length", 0),
        "action_history": history,
    }


def _v1(task: Task, t: Trajectory, turns: list[Turn]) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "task": task.prompt,
        "final_result_response": answer_of(t.steps),
        "action_history": [line for step, _, _ in turns for line in map(_arrow, step.action.splitlines())],
        "thoughts": [_thought(reply) for _, _, reply in turns],
    }


def _arrow(line: str) -> str:
    """`click(id=3)` as version 1 writes actions: `<element> -> CLICK`."""
    name, _, arguments = line.partition("(")
    return f"<{arguments.removesuffix(')')}> -> {name.upper()}"


def _thought(reply: Message) -> str:
    """What was said beside the calls."""
    lines = [line for line in reply.content.splitlines() if not re.match(r"[A-Za-z_]\w*\(.*\)\s*$", line)]
    return "\n".join([*([reply.reasoning] if reply.reasoning else []), *lines]).strip()


def _spoken(task: Task, t: Trajectory) -> list[dict[str, Any]]:
    """The messages as WebVoyager's evaluator wants them: the task in the second, the answer in the last one."""
    url = str(task.data.get("start_url", ""))
    begin = f"Now given a task: {task.prompt}  Please interact with {url} and get the answer. \n"
    system = next((m.content for m in t.messages if m.role == "system"), "")
    spoken: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for message in (m for m in t.messages if m.role != "system"):
        text = begin + message.content if len(spoken) == 1 else message.content
        role = "assistant" if message.role == "assistant" else "user"
        pictures = [{"type": "image_url", "image_url": NO_PICTURE}] * len(message.images)
        spoken.append({"role": role, "content": [{"type": "text", "text": text}, *pictures] if pictures else text})
    if answer := answer_of(t.steps):
        said = " ".join(answer.replace("]", ")").replace("[", "(").split())
        spoken[-1]["content"] = f"Thought: {_thought(t.messages[-1])}\nAction: ANSWER; [{said}]"
    return spoken


def _pictures(messages: tuple[Message, ...]) -> Iterator[str]:
    yield from (sha for message in messages for sha in message.images)


def _name(id: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", id):
        raise DataError(f"{id[:60]!r} cannot name a folder")
    return id


def _folder(folder: Path, name: str) -> Path:
    try:
        (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, folder / name, "made") from error
    return folder / name


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise disk_error(error, path, "written") from error
