"""Tasks of public benchmarks for web agents, from their own files (formats reference, section 5)."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from orchard_cli.errors import ConfigError, DataError
from orchard_cli.task import Task

from .dates import expired
from .rows import Problem, rows, typed

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


@dataclass(frozen=True)
class Loaded:
    """What a file held. expired: good tasks that ask for dates that lie in the past."""

    file: str
    tasks: tuple[Task, ...]
    problems: tuple[Problem, ...]
    expired: tuple[Problem, ...]

    def notes(self, most: int = 5) -> Iterator[str]:
        """What a person should know, a line each."""
        if self.problems:
            yield f"{self.file}: {len(self.tasks)} tasks are good, {len(self.problems)} rows are not"
            yield from map(str, self.problems[:most])
        if self.expired:
            yield f"{self.file}: {len({p.line for p in self.expired})} tasks ask for dates that have passed"
            yield from map(str, self.expired[:most])


class WebVoyagerRow(msgspec.Struct):
    web_name: str
    id: str
    ques: str
    web: str


class Mind2WebRow(msgspec.Struct):
    task_id: str
    confirmed_task: str
    website: str
    reference_length: int = 0
    level: str = ""


class DeepShopRow(msgspec.Struct):
    id: str
    ques: str
    web: str
    web_name: str = ""
    attribute: str | None = None
    filter: str | None = None
    sort: str | None = None


def load(kind: str, path: Path, *, today: date, domain: str = "gui") -> Loaded:
    """All good tasks of a file of that kind, as evaluation tasks. Raises `ConfigError`, `DataError`.

    A task's `data` has `benchmark`, `start_url`, `site` and `level`; WebVoyager's reference answers are read from
    `reference_answer.json` beside the file, if there is one.
    """
    if kind not in KINDS:
        raise ConfigError(f"there is no benchmark `{kind}`", hint=f"there are: {', '.join(KINDS)}")
    row_type, made = KINDS[kind]
    references = _references(path) if kind == "webvoyager" else {}
    tasks: dict[str, Task] = {}
    problems: list[Problem] = []
    late: list[Problem] = []
    for number, found in rows(path):
        row = typed(path, number, found, row_type)
        task = row if isinstance(row, Problem) else made(row, references)
        if isinstance(task, tuple):
            task = Problem(str(path), number, *task)
        elif isinstance(task, Task) and task.id in tasks:
            task = Problem(str(path), number, "id", f"{task.id} is there twice")
        if isinstance(task, Problem):
            problems.append(task)
        else:
            tasks[task.id] = msgspec.structs.replace(task, domain=domain)
            said = [f"{task.id} asks for {when}, which has passed" for when in expired(task.prompt, today)]
            late += [Problem(str(path), number, ASKED[kind], words) for words in said]
    return Loaded(str(path), tuple(tasks.values()), tuple(problems), tuple(late))


Wrong = tuple[str, str]  # field, message


def _webvoyager(row: WebVoyagerRow, references: Mapping[str, Any]) -> Task | Wrong:
    hidden = {"reference": references[row.id]} if row.id in references else {}
    return _task("webvoyager", row.id, row.ques, ("web", row.web), row.web_name, hidden=hidden)


def _mind2web(row: Mind2WebRow, references: Mapping[str, Any]) -> Task | Wrong:
    level = row.level.lower() or level_of(row.reference_length)
    if level not in ("easy", "medium", "hard", ""):
        return "level", f"{row.level!r} is none of easy, medium, hard"
    task = _task("mind2web", row.task_id, row.confirmed_task, ("website", row.website), "", level)
    if isinstance(task, Task):
        task.data["reference_length"] = row.reference_length
    return task


def _deepshop(row: DeepShopRow, references: Mapping[str, Any]) -> Task | Wrong:
    wanted = {"attribute": row.attribute, "filter": row.filter, "sort": row.sort}
    kept = {k: v.strip() for k, v in wanted.items() if v and v.strip().lower() not in ("none", "")}
    name = row.web_name or row.id.split("--")[0]
    return _task("deepshop", row.id, row.ques, ("web", row.web), name, hidden={"requirements": kept})


def level_of(reference_length: int) -> str:
    """Online-Mind2Web's levels: up to 5 steps easy, up to 10 medium, then hard; 0: not known."""
    return (
        ""
        if reference_length < 1
        else "easy"
        if reference_length <= 5
        else "medium"
        if reference_length <= 10
        else "hard"
    )


def _task(
    benchmark: str,
    id: str,
    text: str,
    place: tuple[str, str],
    family: str,
    level: str = "",
    hidden: Mapping[str, Any] = MappingProxyType({}),
) -> Task | Wrong:
    if not _ID.fullmatch(id):
        return "id", f"{id[:60]!r} cannot name a folder"
    if not text.strip():
        return "task", "there is nothing to do in it"
    url = start_url(place[1])
    if not url:
        return place[0], f"{place[1][:100]!r} is no address of the web"
    site = site_of(url)
    data = {"benchmark": benchmark, "start_url": url, "site": site, "level": level}
    return Task(id, "gui", " ".join(text.split()), "eval", family or site, data, dict(hidden))


def start_url(text: str) -> str:
    """An http or https address, with a scheme; empty if it is none."""
    text = text.strip()
    url = text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) else f"https://{text}"
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and ("." in (parts.hostname or "") or parts.hostname == "localhost")
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and named and not re.search(r"\s", url) else ""


def site_of(url: str) -> str:
    """The host without `www.`, as sites are counted."""
    return (urlsplit(url).hostname or "").lower().removeprefix("www.")


def _references(path: Path) -> dict[str, Any]:
    """Task id → {ans, type} of WebVoyager's `reference_answer.json`: `{web_name: {answers: [{id, type, ans}]}}`."""
    file = path.with_name("reference_answer.json")
    if not file.is_file():
        return {}
    try:
        whole = json.loads(file.read_bytes())
        return {
            f"{web}--{a['id']}": {"ans": a["ans"], "type": a["type"]} for web in whole for a in whole[web]["answers"]
        }
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{file}: not as WebVoyager writes it ({type(error).__name__}: {error})") from error


Made = Callable[[Any, Mapping[str, Any]], Task | Wrong]
KINDS: dict[str, tuple[type, Made]] = {
    "webvoyager": (WebVoyagerRow, _webvoyager),
    "mind2web": (Mind2WebRow, _mind2web),
    "deepshop": (DeepShopRow, _deepshop),
}

ASKED = {"webvoyager": "ques", "mind2web": "confirmed_task", "deepshop": "ques"}  # the field with the text


def sites(tasks: tuple[Task, ...]) -> Counter[str]:
    """How many tasks each site has."""
    return Counter(t.data["site"] for t in tasks)
