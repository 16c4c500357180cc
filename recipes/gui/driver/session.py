"""One Chromium, one attempt at a time, each with a fresh profile."""

import asyncio
import contextlib
import os
from typing import Any

from .deeds import Deeds
from .faults import Trouble, net_error
from .site import Site, fetch
from .tab import PATIENCE_S, Unresponsive
from .tabs import Tabs

LOAD_S = 15.0  # for a page to arrive
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-breakpad"),
    *("--disable-site-isolation-trials", "--disable-extensions", "--mute-audio", "--disable-crash-reporter"),
    # The last such flag counts: these are ours, and those of Playwright that matter here.
    "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,SpareRendererForSitePerProcess,"
    "HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,PaintHolding,OptimizationHints,DestroyProfileOnBrowserClose,"
    "AvoidUnnecessaryBeforeUnloadCheckSync,ThirdPartyStoragePartitioning",
    *("--force-color-profile=srgb", "--hide-scrollbars", "--renderer-process-limit=2", "--disk-cache-size=33554432"),
)
# The clock starts at the same moment for every attempt and then runs: dates are those of the task, not of today.
CLOCK = """(() => { const from = %d - Date.now(), Real = Date;
globalThis.Date = class Date extends Real {
  constructor(...a) { super(...(a.length ? a : [Real.now() + from])); }
  static now() { return Real.now() + from; }
};
Object.defineProperty(globalThis.Date, "name", {value: "Date"}); })()"""


class Session:
    """Its methods are the driver's operations. Values are JSON; troubles raise `Trouble`."""

    def __init__(self) -> None:
        self.over = False
        self.own_port = 0
        self._playwright: Any = None
        self._browser: Any = None
        self._context: Any = None
        self._site = Site()
        self._tabs: Tabs | None = None
        self._deeds: Deeds | None = None
        self._probe = ""
        self._status: Any = None
        self._kind: tuple[Any, ...] | None = None  # what the attempt's profile was made for
        self._after: dict[str, Any] | None = None
        self._spare: tuple[Any, asyncio.Task[Any]] | None = None  # a profile made ahead, and for what

    async def start(self, own_port: int) -> None:
        from playwright.async_api import async_playwright

        self.own_port = own_port
        self._playwright = await async_playwright().start()
        proxy = os.environ.get("HTTP_PROXY")  # the sandbox's way out; loopback is always reached directly
        self._browser = await self._playwright.chromium.launch(
            executable_path=os.environ["CHROMIUM"],
            args=[*FLAGS, *([f"--proxy-server={proxy}"] if proxy else [])],
            ignore_default_args=["--disable-popup-blocking", "--enable-automation"],
            timeout=60_000,
            handle_sigint=False,
            handle_sigterm=False,
        )

    async def reset(
        self,
        url: str,
        *,
        viewport: tuple[int, int],
        clock_ms: int = 0,
        any_certificate: bool = False,
        begin: str = "",
        probe: str = "",
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        command: list[str] | None = None,
        port: int = 0,
    ) -> dict[str, Any]:
        """A fresh profile at `url`. `begin` starts the episode and `probe` reads its state, both in the page's world.

        `command` serves the site at `port` for as long as we live; `before` makes it ready, `after` reads its end.
        """
        await self._alive()
        if command:
            await self._site.start(command, port)
        if before:
            await asyncio.to_thread(fetch, before)
        self._probe, self._status, self._after = probe, None, after
        self._tabs = await self._fresh((viewport[0], viewport[1]), clock_ms, any_certificate)
        self._context = self._tabs.context
        self._deeds = Deeds(self._tabs, viewport, self.own_port)
        await self._goto_start(url)
        begun = await self._tabs.current.main_world(begin, LOAD_S) if begin else None
        if begin and begun is None:
            raise Trouble("site", "episode", "the page's episode did not start")
        self._tabs.take()
        await self._look_at_status()
        return {"begun": begun, "status": self._status}

    async def rest(self) -> dict[str, Any]:
        """The attempt is over. While nobody asks, a profile like the last one is made ready for the next."""
        if self._kind is not None and self._spare is None:
            self._spare = (self._kind, asyncio.ensure_future(self._turn_over(*self._kind)))
        return {}

    async def _turn_over(self, *kind: Any) -> Tabs:
        await self._drop()
        return await self._make(*kind)

    async def _fresh(self, *kind: Any) -> Tabs:
        """A profile of its own with an empty tab: no cookies, no storage, no cache."""
        spare, self._spare = self._spare, None
        self._kind = kind
        if spare is not None:
            with contextlib.suppress(Exception):
                made: Tabs = await spare[1]
                if spare[0] == self._kind:
                    return made
                self._tabs, self._context = made, made.context
        await self._drop()
        return await self._make(*kind)

    async def _make(self, viewport: tuple[int, int], clock_ms: int, any_certificate: bool) -> Tabs:
        context = await self._browser.new_context(
            viewport={"width": viewport[0], "height": viewport[1]},
            device_scale_factor=1,
            accept_downloads=False,
            service_workers="block",
            ignore_https_errors=any_certificate,
            locale="en-US",
            timezone_id="UTC",
        )
        if clock_ms:
            await context.add_init_script(CLOCK % clock_ms)
        tabs = Tabs(context)
        await tabs.open()
        return tabs

    async def _goto_start(self, url: str) -> None:
        assert self._tabs
        tab = self._tabs.current
        try:
            response = await tab.page.goto(url, wait_until="load", timeout=LOAD_S * 1000)
        except Exception as error:
            code, words = net_error(str(error))
            raise Trouble("site", code, f"{url}: {words}") from error
        tab.status = response.status if response else 0
        if (tab.status >= 400 or not self._probe) and (fault := await tab.fault()):
            raise Trouble("site", fault[0], f"{url}: {fault[1]}")

    async def act(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """One of the policy's actions: {"code", "text", "status"}. What the page does to it is told, not raised."""
        tabs, deeds = self._ready()
        before, tab = tabs.current.url, tabs.current
        code, text = "ok", "; ".join(words for _, words in tabs.take())
        try:
            code, said = await deeds.do(name, args)
            text = "; ".join(part for part in (text, said) if part)
            await tabs.calm()
            if not await tabs.current.wait(LOAD_S):
                tabs.notes.append(("navigation_timeout", "the page is still loading"))
        except Unresponsive as error:
            await tabs.calm()
            if tab in tabs.all:
                await tabs.replace(str(error))
        await self._alive()
        await self._look_at_status()
        notes = tabs.take()
        if tab in tabs.all and tab.url != before:
            notes.append(("navigated", f"now at {tab.url[:300]}"))
            if (tab.status >= 400 or not self._probe) and (fault := await tab.fault()):
                notes.append(fault)
        serious = [note[0] for note in notes if note[0] not in ("navigated", "new_tab", "dialog")]
        words = "; ".join(part for part in (text, *(note[1] for note in notes)) if part)
        return {"code": serious[0] if serious and code == "ok" else code, "text": words, "status": self._status}

    async def observe(
        self, *, tree: bool = True, picture: bool = False, every: bool = False, all: bool = False,
        skip: str = "", most: int = 400,
    ) -> dict[str, Any]:  # fmt: skip
        """What there is to see in front: lines of text with ids, and a picture, as asked for."""
        tabs, _ = self._ready()
        asked = {"every": every, "all": all, "skip": skip, "most": most}
        for _ in range(3):
            try:
                await tabs.calm()
                await tabs.current.wait(LOAD_S)
                seen = await tabs.current.look(asked, LOAD_S) if tree else {}
                shot = await tabs.current.picture() if picture else ""
                break
            except Unresponsive as error:
                await self._alive()
                await tabs.replace(str(error))
        else:
            raise Trouble("infra", "browser_gone", "no tab answers")
        names = [[tab.url[:200], index == tabs.front] for index, tab in enumerate(tabs.all)]
        return {"tree": seen, "picture": shot, "tabs": names, "url": tabs.current.url, "notes": tabs.take()}

    async def state(self) -> dict[str, Any]:
        """How things stand at the end: where it is, and what the page says of its episode."""
        tabs, _ = self._ready()
        await self._look_at_status()
        site = await asyncio.to_thread(fetch, self._after) if self._after else None
        return {"url": tabs.current.url, "tabs": [tab.url for tab in tabs.all], "status": self._status, "site": site}

    async def health(self) -> dict[str, bool]:
        return {"connected": self._browser.is_connected()}

    async def exit(self) -> dict[str, Any]:
        self.over = True
        if self._spare is not None:
            with contextlib.suppress(Exception):
                self._tabs = await self._spare[1]
        await self._drop()
        self._site.stop()
        for closing in (self._browser.close, self._playwright.stop):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(5):
                    await closing()
        return {}

    def _ready(self) -> tuple[Tabs, Deeds]:
        if self._tabs is None or self._deeds is None:
            raise Trouble("infra", "bad_request", "there is no attempt")
        return self._tabs, self._deeds

    async def _alive(self) -> None:
        if not self._browser.is_connected():
            raise Trouble("infra", "browser_gone", "Chromium is not running any more")

    async def _look_at_status(self) -> None:
        """The first state in which the episode is over stays: what the page offers after it is another one."""
        if not self._probe or (self._status and self._status.get("done")):
            return
        assert self._tabs
        seen = await self._tabs.current.main_world(self._probe)
        if isinstance(seen, dict):
            self._status = seen

    async def _drop(self) -> None:
        """End the attempt before: its profile and its tabs."""
        if self._tabs is not None:
            self._tabs.over = True
        context, self._context, self._tabs, self._deeds = self._context, None, None, None
        if context is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(PATIENCE_S):
                    await context.close()
