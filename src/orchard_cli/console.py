"""How orchard speaks: the only file that imports rich. stdout is data, stderr is talk."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .trajectory.render import printable

PLAIN_EVERY_S = 10.0  # how often a long stage prints a line where there is no terminal


class _Rate(ProgressColumn):
    """Tokens a second, and the time left, from the whole of the work so far."""

    def render(self, task: Task) -> Text:
        return Text(_rate(task.completed, task.total or 0, task.elapsed or 0.0, task.fields["tokens"]))


class Tracker:
    """One progress bar, or one plain line every ten seconds."""

    def __init__(self, console: "Console", title: str, total: int, unit: str, bar: Progress | None):
        self._console, self._title, self._total, self._unit, self._bar = console, title, total, unit, bar
        self._done, self._tokens, self._counts = 0, 0, ""
        self._started = self._printed = time.monotonic()
        self._id = bar.add_task(title, total=total, tokens=0, counts="") if bar else None

    def update(self, *, done: int = 1, tokens: int = 0, counts: Mapping[str, object] | None = None) -> None:
        self._done += done
        self._tokens += tokens
        if counts is not None:
            self._counts = " ".join(f"{v} {k}" for k, v in counts.items())
        if self._bar and self._id is not None:
            self._bar.update(self._id, completed=self._done, tokens=self._tokens, counts=self._counts)
        elif time.monotonic() - self._printed > PLAIN_EVERY_S:
            self._printed = time.monotonic()
            self.line()

    def line(self) -> None:
        passed = time.monotonic() - self._started
        rate = _rate(self._done, self._total, passed, self._tokens)
        parts = (f"{self._title}: {self._done}/{self._total} {self._unit}", self._counts, rate)
        self._console.note(" · ".join(p for p in parts if p))


class Console:
    """`json_only` leaves stdout to one JSON document and keeps progress and notes on stderr."""

    def __init__(self, *, json_only: bool = False):
        self.json_only = json_only
        self._out = RichConsole(highlight=False, soft_wrap=True, emoji=False)
        self._err = RichConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    @contextmanager
    def track(self, title: str, total: int, unit: str = "attempts") -> Iterator[Tracker]:
        if not self._err.is_terminal:
            tracker = Tracker(self, title, total, unit, None)
            yield tracker
            tracker.line()
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn())
        more = (TextColumn("{task.fields[counts]}", markup=False), TimeElapsedColumn(), _Rate())
        with Progress(*columns, *more, console=self._err) as bar:
            yield Tracker(self, title, total, unit, bar)

    def note(self, text: str) -> None:
        self._err.print(_safe(text), style="dim" if self._err.is_terminal else None)

    def say(self, text: str) -> None:
        """A line of result for people; silent when stdout belongs to JSON."""
        if not self.json_only:
            self._out.print(_safe(text))

    def text(self, text: str) -> None:
        """Data as it is, to stdout."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def data(self, value: Any) -> None:
        """The JSON document of a `--json` command."""
        self.text(json.dumps(value, indent=1, ensure_ascii=False, default=str))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = 10_000) -> None:
        """A table for people. Where there is no terminal it is as wide as it needs to be, up to `most`."""
        if self.json_only:
            return
        table = Table(title=_safe(title) or None, title_justify="left", title_style="bold")
        for index, column in enumerate(columns):
            numeric = all(row[index][:1] in "+-0123456789–" for row in rows)
            table.add_column(_safe(column), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_safe(cell) for cell in row))
        width = None if self._out.is_terminal else most
        RichConsole(highlight=False, width=width, emoji=False).print(table) if width else self._out.print(table)

    def error(self, message: str, hint: str = "") -> None:
        self._err.print(f"[red]error[/]: {_safe(message)}")
        if hint:
            self._err.print(f"\n[cyan]hint[/]: {_safe(hint)}")


def _safe(text: str) -> str:
    """Task files, models and servers wrote parts of it: neither markup nor control characters may act."""
    return escape(printable(text))


def _rate(done: float, total: float, passed: float, tokens: int) -> str:
    parts = []
    if tokens and passed > 0:
        parts.append(f"{tokens / passed:,.0f} tokens/s")
    if done and total > done:
        left = passed / done * (total - done)
        parts.append(f"{int(left // 60)}:{int(left % 60):02d} left")
    return " · ".join(parts)
