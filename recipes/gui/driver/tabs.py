"""The tabs of one attempt, and what happened in them that the policy must be told: dialogs, pop-ups, downloads."""

import asyncio
import contextlib
from typing import Any

from .tab import Tab

MAX_TABS = 8
MAX_DIALOGS = 12  # in one action


class Tabs:
    """In the order they were opened. Exactly one is in front; there is always one."""

    def __init__(self, context: Any):
        self.context = context
        self.all: list[Tab] = []
        self.front = 0
        self.notes: list[tuple[str, str]] = []  # (code, words) since they were last taken
        self._dialogs = self._refused = 0
        self._wanted = False  # a new tab that we asked for ourselves
        self._expected = 0  # windows that pages said they open
        self.over = False  # the attempt has ended: what still comes in is of no concern
        self._tasks: set[asyncio.Task[None]] = set()
        context.on("page", lambda page: self._spawn(self._opened(page)))
        context.on("dialog", lambda dialog: self._spawn(self._dialog(dialog)))

    @property
    def current(self) -> Tab:
        return self.all[self.front]

    def take(self) -> list[tuple[str, str]]:
        """What happened since the last time."""
        if self._refused:
            self.notes.append(("popups_closed", f"{self._refused} more windows were closed at once"))
        notes, self.notes = self.notes, []
        self._dialogs = self._refused = 0
        return notes

    async def open(self) -> Tab:
        """A new empty tab in front."""
        self._wanted = True
        try:
            page = await self.context.new_page()
        finally:
            self._wanted = False
        return await self._add(page)

    async def close(self, index: int) -> None:
        tab = self.all.pop(index)
        await _close(tab.page)
        if not self.all:
            await self.open()
        self.front = min(self.front - (index < self.front), len(self.all) - 1)
        await self.bring(self.front)

    async def bring(self, index: int) -> None:
        self.front = index
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await self.current.page.bring_to_front()

    async def replace(self, why: str) -> None:
        """Give up a tab that does not answer."""
        broken = self.current
        code = "page_crashed" if broken.crashed else "page_unresponsive"
        self.all.remove(broken)
        self.front = max(0, min(self.front, len(self.all) - 1))
        await _close(broken.page)
        if not self.all:
            await self.open()
        self.notes.append((code, f"{why}; its tab was closed"))

    async def calm(self) -> None:
        """Until the events that came in have been dealt with, and windows that were to open are there."""
        for _ in range(50):
            if self._expected <= 0:
                break
            await asyncio.sleep(0.01)
        self._expected = 0
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
            self._tasks = {task for task in self._tasks if not task.done()}

    def _expect(self) -> None:
        self._expected += 1

    def _spawn(self, work: Any) -> None:
        if self.over:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _add(self, page: Any) -> Tab:
        tab = Tab(page)
        tab.opening = self._expect
        page.on("download", lambda download: self._spawn(self._download(download)))
        page.on("close", lambda _: self._gone(tab))
        self.all.append(tab)
        self.front = len(self.all) - 1
        await tab.attach()
        return tab

    async def _opened(self, page: Any) -> None:
        if self._wanted or any(tab.page is page for tab in self.all):
            return
        self._expected -= 1
        if len(self.all) >= MAX_TABS:
            self._refused += 1
            await _close(page)
            return
        try:
            await self._add(page)
        except Exception:  # noqa: BLE001 - closed again before we could look, or it never answers
            self.all = [tab for tab in self.all if tab.page is not page]
            self.front = max(0, min(self.front, len(self.all) - 1))
            await _close(page)
            return
        self.notes.append(("new_tab", f"a new tab opened and is in front: [{self.front}] {page.url}"))

    def _gone(self, tab: Tab) -> None:
        if tab in self.all and not self.over:
            self.notes.append(("tab_closed", f"the page closed its tab [{self.all.index(tab)}]"))
            self.all.remove(tab)
            self.front = max(0, min(self.front, len(self.all) - 1))
            if not self.all:
                self._spawn(self._fresh())

    async def _fresh(self) -> None:
        if not self.all:
            await self.open()

    async def _dialog(self, dialog: Any) -> None:
        self._dialogs += 1
        if self._dialogs == MAX_DIALOGS + 1:
            await self._storm(dialog)
            return
        kind, message = dialog.type, dialog.message[:300]
        with contextlib.suppress(Exception):
            if kind == "prompt":
                await dialog.accept(dialog.default_value)
            else:
                await dialog.accept()
        if self._dialogs <= MAX_DIALOGS:
            said = f'answered "{dialog.default_value}"' if kind == "prompt" else "answered OK"
            self.notes.append(("dialog", f'the page showed {kind} "{message}", {said}'))

    async def _storm(self, dialog: Any) -> None:
        """A page that never stops asking is not worth keeping."""
        self.notes.append(("dialog_storm", "the page kept showing dialogs; its tab was closed"))
        page = dialog.page
        found = [tab for tab in self.all if tab.page is page]
        self.all = [tab for tab in self.all if tab.page is not page]
        self.front = max(0, min(self.front, len(self.all) - 1))
        await _close(page)
        for tab in found:
            tab.crashed = True  # whoever waits for it need not any longer
        await self._fresh()

    async def _download(self, download: Any) -> None:
        self.notes.append(("download", f'the download of "{download.suggested_filename[:100]}" was refused'))
        with contextlib.suppress(Exception):
            await download.cancel()


async def _close(page: Any) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(3):
            await page.close()
