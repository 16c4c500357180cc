"""The 13 actions of the published recipe, done with real mouse and keyboard events. Arguments were checked outside."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from .faults import net_error
from .tab import Unresponsive
from .tabs import Tabs

Done = tuple[str, str]  # code, words
TYPED = 200  # characters that are typed key by key; what is longer is inserted
LOAD_MS = 15_000
INPUT_S = 5.0  # for the page to take one event
STIRS = ("click", "write", "press_keys", "drag")
SET = ("date", "time", "datetime-local", "month", "week", "color", "range")


class Deeds:
    def __init__(self, tabs: Tabs, viewport: tuple[int, int], own_port: int):
        self._tabs, self._viewport, self._own_port = tabs, viewport, own_port
        self._at = (0.0, 0.0)

    async def do(self, name: str, args: dict[str, Any]) -> Done:
        """Raises `Unresponsive` if the page does not answer."""
        try:
            async with asyncio.timeout(60 + float(args.get("seconds", 0))):
                tab = self._tabs.current
                done: Done = await getattr(self, f"_{name}")(**args)
                if name in STIRS and tab in self._tabs.all:
                    await tab.ask("tick")  # what the page set going, a navigation say, has begun by then
                return done
        except Unresponsive:
            raise
        except TimeoutError as error:
            raise Unresponsive("the page does not respond") from error
        except Exception as error:
            first = str(error).split("\n")[0][:300]
            if any(word in first for word in ("has been closed", "crashed", "Timeout")):
                raise Unresponsive(first) from error
            return "failed", first

    @property
    def _page(self) -> Any:
        return self._tabs.current.page

    async def _mouse(self, *work: Any) -> None:
        """Input waits for the renderer: one that hangs must not hang us."""
        try:
            async with asyncio.timeout(INPUT_S):
                for each in work:
                    await each
        except TimeoutError as error:
            raise Unresponsive("the page does not respond") from error
        finally:
            for each in work:
                each.close()

    async def _target(self, id: int | None, point_2d: list[float] | None) -> dict[str, Any]:
        """Where to point: {"x", "y", …}, or {"code", …}."""
        if id is not None:
            aimed: dict[str, Any] = await self._tabs.current.of(id, "aim")
            return aimed
        if point_2d is None:
            return {"x": self._viewport[0] / 2, "y": self._viewport[1] / 2}
        width, height = self._viewport
        return {"x": min(point_2d[0] * width / 1000, width - 1), "y": min(point_2d[1] * height / 1000, height - 1)}

    async def _click(
        self, id: int | None = None, point_2d: list[float] | None = None, clicks: int = 1, button: str = "left"
    ) -> Done:
        at = await self._target(id, point_2d)
        if "code" in at:
            return trouble(at, id)
        if at.get("tag") == "SELECT" and not at.get("type", "").endswith("multiple"):
            return "use_write", f"a list opens outside the page: choose with write on [{id}]"
        if at.get("type") == "file":
            return "refused", "files cannot be chosen"
        self._at = (at["x"], at["y"])
        await self._mouse(self._page.mouse.click(at["x"], at["y"], click_count=clicks, button=button))
        return "ok", ""

    async def _hover(self, id: int | None = None, point_2d: list[float] | None = None) -> Done:
        at = await self._target(id, point_2d)
        if "code" in at:
            return trouble(at, id)
        await self._mouse(self._page.mouse.move(at["x"], at["y"]))
        return "ok", ""

    async def _drag(
        self,
        start_id: int | None = None,
        end_id: int | None = None,
        start_point_2d: list[float] | None = None,
        end_point_2d: list[float] | None = None,
        steps: int = 10,
    ) -> Done:
        start = await self._target(start_id, start_point_2d)
        if "code" in start:
            return trouble(start, start_id)
        end = await self._target(end_id, end_point_2d)
        if "code" in end:
            return trouble(end, end_id)
        mouse = self._page.mouse
        await self._mouse(
            mouse.move(start["x"], start["y"]), mouse.down(), mouse.move(end["x"], end["y"], steps=steps), mouse.up()
        )
        return "ok", ""

    async def _write(self, message: str, id: int | None = None) -> Done:
        tab = self._tabs.current
        if id is not None:
            at = await tab.of(id, "aim")
            if at.get("code", "covered") != "covered":
                return trouble(at, id)
            if at["tag"] == "SELECT" or at["type"] in SET:
                return told(await tab.of(id, "set", message), message, id)
            if "code" in at:
                return trouble(at, id)
            if at["tag"] not in ("INPUT", "TEXTAREA") and not at.get("editable"):
                await self._mouse(self._page.mouse.click(at["x"], at["y"]))
            else:
                found = await tab.of(id, "focus")
                if "code" in found:
                    return trouble(found, id)
        keyboard = self._page.keyboard
        head, rest = message[:TYPED], message[TYPED:]
        if not message and id is not None:
            await self._mouse(keyboard.press("Delete"))
        await self._mouse(keyboard.type(head))
        if rest:
            await self._mouse(keyboard.insert_text(rest))
        if self._tabs.current is not tab or tab.loading:
            return "ok", ""
        return told(await tab.ask("value"), message if id is not None else None, id)

    async def _press_keys(self, keys: list[str], is_hotkey: bool = False, presses: int = 1) -> Done:
        wanted = ["+".join(keys)] if is_hotkey else keys
        for _ in range(presses):
            for key in wanted:
                await self._mouse(self._page.keyboard.press(key))
        return "ok", ""

    async def _scroll(
        self, direction: str, amount: float = 0.5, id: int | None = None, point_2d: list[float] | None = None
    ) -> Done:
        x, y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[direction]
        if point_2d is not None:
            at = await self._target(None, point_2d)
            mouse, (width, height) = self._page.mouse, self._viewport
            await self._mouse(mouse.move(at["x"], at["y"]), mouse.wheel(x * amount * width, y * amount * height))
            return "ok", ""
        moved = await self._tabs.current.of(id or 0, "scroll", x * amount, y * amount)
        if "code" in moved:
            return trouble(moved, id)
        return ("ok", "") if moved["moved"] else ("not_moved", "there is nothing more to scroll to in that direction")

    async def _wait(self, seconds: float = 3.0) -> Done:
        await asyncio.sleep(seconds)
        return "ok", ""

    async def _goto_url(self, url: str) -> Done:
        return await self._go(url)

    async def _go(self, url: str) -> Done:
        parts = urlsplit(url)
        if parts.port == self._own_port:
            return "refused", "that address is not a site"
        for patience in (0.05, 0.2, 0.8, 0.0):
            try:
                await self._page.goto(url, wait_until="domcontentloaded", timeout=LOAD_MS)
                break
            except Exception as error:  # noqa: BLE001 - whatever the browser says of it is told
                if "interrupted by another navigation" in str(error) and patience:
                    # The error page of the navigation before came in between. Going again at once would
                    # collide with ours, which is still under way.
                    await asyncio.sleep(patience)
                    continue
                code, words = net_error(str(error))
                if code in ("download", "aborted"):
                    await asyncio.sleep(0.1)  # the event of the download comes a little later
                return code, words
        return "ok", ""

    async def _go_back(self) -> Done:
        before = self._page.url
        try:
            await self._page.go_back(wait_until="domcontentloaded", timeout=LOAD_MS)
        except Exception as error:  # noqa: BLE001 - whatever the browser says of it is told
            return net_error(str(error))
        return ("ok", "") if self._page.url != before else ("no_history", "there is no page to go back to")

    async def _new_tab(self, url: str = "") -> Done:
        from .tabs import MAX_TABS

        if len(self._tabs.all) >= MAX_TABS:
            return "too_many_tabs", f"there are {MAX_TABS} tabs already"
        await self._tabs.open()
        return await self._go(url) if url else ("ok", f"tab [{self._tabs.front}] is in front")

    async def _switch_tab(self, tab_index: int) -> Done:
        if not 0 <= tab_index < len(self._tabs.all):
            return "no_such_tab", f"there are tabs 0 to {len(self._tabs.all) - 1}"
        await self._tabs.bring(tab_index)
        return "ok", f"tab [{tab_index}] is in front: {self._tabs.current.url[:200]}"

    async def _close_tab(self) -> Done:
        await self._tabs.close(self._tabs.front)
        return "ok", f"tab [{self._tabs.front}] is in front: {self._tabs.current.url[:200]}"


def trouble(found: dict[str, Any], id: int | None) -> Done:
    """Why nothing was done, in words."""
    what = f"[{id}] {found.get('what', '')}".strip()
    words = {
        "no_such_element": f"there is no element [{id}] now",
        "hidden": f"{what} is not visible",
        "disabled": f"{what} is disabled",
        "covered": f"{what} is covered by {found.get('by', 'something')}",
        "no_such_option": f"{what} has no such option",
    }
    return found["code"], words[found["code"]]


def told(found: dict[str, Any], message: str | None, id: int | None) -> Done:
    """What the field holds after writing, if that is not what was written."""
    if "code" in found:
        return trouble(found, id)
    if found.get("none"):
        return "not_editable", "no field took the text"
    if (
        message is None
        or found["value"] == message
        or found.get("type") == "password"
        and len(found["value"]) == len(message)
    ):
        return "ok", ""
    if " ".join(found["value"].split()) == " ".join(message.split()):
        return "ok", ""
    return "value_differs", f'{found["what"]} now holds "{found["value"][:200]}"'
