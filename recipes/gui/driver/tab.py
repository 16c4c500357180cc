"""One tab: its isolated world, in which `page.js` lives, out of the page's sight."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

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
        self.loaded = asyncio.Event()
        self.status = 0
        self._cdp: Any = None
        self._frame = ""
        self._world = 0

    @property
    def url(self) -> str:
        return str(self.page.url)

    async def attach(self) -> None:
        """Open the tab's own line to the browser."""
        async with asyncio.timeout(PATIENCE_S):
            self._cdp = await self.page.context.new_cdp_session(self.page)
            tree = await self._cdp.send("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        self.page.on("request", self._request)
        self.page.on("response", self._response)
        self.page.on("domcontentloaded", lambda _: self._arrived())
        self.page.on("requestfailed", lambda request: self._failed(request))
        self.page.on("crash", lambda _: self._crash())

    def _main(self, request: Any) -> bool:
        with contextlib.suppress(Exception):  # service workers have no frame
            return bool(request.is_navigation_request() and request.frame == self.page.main_frame)
        return False

    def _request(self, request: Any) -> None:
        if self._main(request):
            self.loading = True
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
        if not self.loading:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.loaded.wait()
        except TimeoutError:
            return False
        return True

    async def ask(self, function: str, *args: Any, settle: bool = False, patience: float = PATIENCE_S) -> Any:
        """`orchard.<function>(…args)` in the page. Raises `Unresponsive`."""
        words = ", ".join(json.dumps(arg) for arg in args)
        call = f"(async () => {{ {'await ' + SETTLE + ';' if settle else ''} return orchard.{function}({words}); }})()"
        for last in (False, False, True):
            if self.crashed:
                raise Unresponsive("the page crashed")
            try:
                async with asyncio.timeout(patience):
                    return await self._evaluate(call)
            except TimeoutError as error:
                raise Unresponsive("the page does not respond") from error
            except Exception as error:
                if last or not any(word in str(error) for word in GONE):
                    raise Unresponsive(str(error).split("\n")[0][:300]) from error
                self._world = 0
                await self.wait(PATIENCE_S)
        raise AssertionError

    async def _evaluate(self, call: str) -> Any:
        if not self._world:
            made = await self._cdp.send(
                "Page.createIsolatedWorld", {"frameId": self._frame, "worldName": "o", "grantUniveralAccess": True}
            )
            self._world = made["executionContextId"]
            call = f"{SOURCE}\n{call}"
        return await self._value(call, contextId=self._world)

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
