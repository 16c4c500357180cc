"""One tab: its isolated world, in which `page.js` lives, out of the page's sight."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .faults import page_fault

SOURCE = Path(__file__).with_name("page.js").read_text()
SETTLE = "new Promise(done => { requestAnimationFrame(() => setTimeout(done, 0)); setTimeout(done, 60); })"
PATIENCE_S = 5.0  # for a page to answer anything at all
GONE = ("Cannot find context", "Execution context", "uniqueContextId", "Inspected target navigated")


class Unresponsive(Exception):
    """The page runs for ever, or its renderer is gone."""


class Tab:
    """Wraps a Playwright page. `loading` is set while its main frame goes somewhere."""

    def __init__(self, page: Any):
        self.page = page
        self.crashed = False
        self.loading = False
        self.leaving = False  # the page asked to go elsewhere; the request may not be out yet
        self.loaded = asyncio.Event()
        self.status = 0
        self._cdp: Any = None
        self._frame = ""
        self._worlds: dict[str, int] = {}  # of each frame that we look into
        self._inner: dict[int, tuple[str, int]] = {}  # id of an element → its frame, and the id of that frame's element
        self._next = 1  # ids count through all frames of the tab
        self.opening: Callable[[], None] = lambda: None  # called when the page opens a window

    @property
    def url(self) -> str:
        return str(self.page.url)

    async def attach(self) -> None:
        """Open the tab's own line to the browser."""
        async with asyncio.timeout(PATIENCE_S):
            self._cdp = await self.page.context.new_cdp_session(self.page)
            tree = await self._cdp.send("Page.getFrameTree")
            await self._cdp.send("Page.enable")
        self._frame = tree["frameTree"]["frame"]["id"]
        self._cdp.on("Page.windowOpen", lambda _: self.opening())
        self._cdp.on("Page.frameRequestedNavigation", self._leaving)
        self._cdp.on("Page.navigatedWithinDocument", lambda _: self._stays())
        self.page.on("request", self._request)
        self.page.on("response", self._response)
        self.page.on("domcontentloaded", lambda _: self._arrived())
        self.page.on("requestfailed", lambda request: self._failed(request))
        self.page.on("crash", lambda _: self._crash())

    def _leaving(self, event: Any) -> None:
        if event.get("frameId") == self._frame and event.get("disposition") == "currentTab":
            self.leaving = True

    def _stays(self) -> None:
        self.leaving = False

    def _main(self, request: Any) -> bool:
        with contextlib.suppress(Exception):  # service workers have no frame
            return bool(request.is_navigation_request() and request.frame == self.page.main_frame)
        return False

    def _request(self, request: Any) -> None:
        if self._main(request):
            self.loading, self.leaving = True, False
            self.loaded.clear()

    def _response(self, response: Any) -> None:
        if self._main(response.request):
            self.status = response.status
            if response.status == 204:
                self._arrived()

    def _failed(self, request: Any) -> None:
        if self._main(request):
            self._arrived()

    def _arrived(self) -> None:
        self.loading = False
        self.loaded.set()

    def _crash(self) -> None:
        self.crashed = True
        self._arrived()

    async def wait(self, seconds: float) -> bool:
        """Until a navigation that is under way has arrived. False if it has not in time."""
        for _ in range(20):
            if not self.leaving:
                break
            await asyncio.sleep(0.01)
        self.leaving = False
        if not self.loading:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.loaded.wait()
        except TimeoutError:
            return False
        return True

    async def look(self, asked: dict[str, Any], patience: float) -> dict[str, Any]:
        """What `page.js` says of the page, with the frames of other origins in their places."""
        self._inner = {}
        seen: dict[str, Any] = await self.ask("look", {**asked, "start": self._next}, settle=True, patience=patience)
        self._next = seen["next"]
        for element in seen.pop("frames"):
            with contextlib.suppress(Unresponsive):
                await self._look_into(element, seen, asked)
        return seen

    async def _look_into(self, element: int, seen: dict[str, Any], asked: dict[str, Any]) -> None:
        frame = await self._frame_of(element)
        if frame is None:
            return
        box = await self.ask("box", element)
        await self.ask("shift", box["x"], box["y"], frame=frame)
        inner = await self.ask(
            "look", {**asked, "start": self._next, "most": asked["most"] - len(seen["lines"])}, frame=frame
        )
        for id, *_ in inner["rects"]:
            self._inner[id] = (frame, element)
        self._next = inner["next"]
        at = next(i for i, line in enumerate(seen["lines"]) if line.startswith(f"[{element}]")) + 1
        seen["lines"][at:at] = inner["lines"]
        seen["rects"] += inner["rects"]
        seen["cut"] += inner["cut"]

    async def _frame_of(self, element: int) -> str | None:
        """The frame that an element of the page holds, whatever its origin."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(PATIENCE_S):
                found = await self._cdp.send(
                    "Runtime.evaluate",
                    {"expression": f"orchard.element({int(element)})", "contextId": self._worlds[self._frame]},
                )
                node = await self._cdp.send("DOM.describeNode", {"objectId": found["result"]["objectId"]})
                return str(node["node"]["frameId"])
        return None

    async def of(self, id: int, function: str, *args: Any) -> Any:
        """`ask` in the frame that holds an element; places are those of the whole page. Raises `Unresponsive`."""
        if id not in self._inner:
            return await self.ask(function, id, *args)
        frame, holder = self._inner[id]
        if function == "aim":
            box = await self.ask("box", holder, True)
            said = await self.ask(function, id, *args, frame=frame)
            return said | {"x": said["x"] + box["x"], "y": said["y"] + box["y"]} if "x" in said else said
        return await self.ask(function, id, *args, frame=frame)

    async def ask(
        self, function: str, *args: Any, settle: bool = False, patience: float = PATIENCE_S, frame: str = ""
    ) -> Any:
        """`orchard.<function>(…args)` in the page, or in one of its frames. Raises `Unresponsive`."""
        words = ", ".join(json.dumps(arg) for arg in args)
        call = f"(async () => {{ {'await ' + SETTLE + ';' if settle else ''} return orchard.{function}({words}); }})()"
        for last in (False, False, True):
            if self.crashed:
                raise Unresponsive("the page crashed")
            try:
                async with asyncio.timeout(patience):
                    return await self._evaluate(call, frame or self._frame)
            except TimeoutError as error:
                raise Unresponsive("the page does not respond") from error
            except Exception as error:
                if last or not any(word in str(error) for word in GONE):
                    raise Unresponsive(str(error).split("\n")[0][:300]) from error
                self._worlds = {}
                await self.wait(PATIENCE_S)
        raise AssertionError

    async def _evaluate(self, call: str, frame: str) -> Any:
        if frame not in self._worlds:
            made = await self._cdp.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "o"})
            self._worlds[frame] = made["executionContextId"]
            call = f"{SOURCE}\n{call}"
        return await self._value(call, contextId=self._worlds[frame])

    async def main_world(self, expression: str, patience: float = PATIENCE_S) -> Any:
        """Evaluate in the page's own world: for task sets whose reward the page computes. None if it cannot."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(patience):
                return await self._value(expression)
        return None

    async def _value(self, expression: str, **where: Any) -> Any:
        said = await self._cdp.send(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True, "silent": True, **where},
        )
        if "exceptionDetails" in said:
            details = said["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details.get("text", "it failed")))
        return said["result"].get("value")

    async def fault(self) -> tuple[str, str] | None:
        """What the site shows instead of the page: (code, words), or None."""
        said = await self.main_world("[document.title, document.body ? document.body.innerText.slice(0, 3000) : '']")
        return page_fault(self.status, *map(str, said or ("", "")))

    async def picture(self) -> str:
        """The viewport as PNG, in base64."""
        if self.crashed:
            raise Unresponsive("the page crashed")
        try:
            async with asyncio.timeout(PATIENCE_S * 2):
                shot = await self._cdp.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
        except TimeoutError as error:
            raise Unresponsive("the page does not respond") from error
        except Exception as error:
            raise Unresponsive(str(error).split("\n")[0][:300]) from error
        return str(shot["data"])
