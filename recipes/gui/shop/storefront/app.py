"""Addresses and what they do. One server serves one shopper; the grader's address needs a token that no page shows."""

import hmac
import json
import threading
from collections.abc import Callable, Mapping
from urllib.parse import quote

from . import pages
from .listing import Query
from .shopper import Refused, Shopper

Words = Mapping[str, str]
Page = tuple[int, str]  # status, HTML; or 303 and where to go


class Shop:
    """Answers one request after another, whatever thread it came from."""

    def __init__(self, shopper: Shopper, token: str):
        self.shopper, self._token = shopper, token
        self._lock = threading.Lock()

    def get(self, path: str, words: Words) -> Page:
        with self._lock:
            return self._get([*filter(None, path.split("/"))], words)

    def post(self, path: str, words: Words) -> Page:
        with self._lock:
            acts: dict[str, Callable[[list[str], Words], Page]] = {
                "cart": self._cart,
                "favourites": self._favour,
                "checkout": self._checkout,
                "login": self._login,
                "logout": self._logout,
                "orders": self._order,
                "address": self._address,
            }
            parts = [*filter(None, path.split("/"))]
            act = acts.get(parts[0]) if parts else None
            return act(parts[1:], words) if act else (404, pages.missing(self.shopper))

    def trusted(self, token: str | None) -> bool:
        return bool(self._token) and hmac.compare_digest((token or "").encode(), self._token.encode())

    def state(self) -> bytes:
        with self._lock:
            return json.dumps(self.shopper.state).encode()

    def reset(self, body: bytes) -> bytes:
        """`{"seed": int, "start": {…}}`: everything as in a fresh server."""
        wanted = json.loads(body)
        with self._lock:
            self.shopper.reset(int(wanted["seed"]), wanted.get("start", {}))
        return b"{}"

    def _get(self, parts: list[str], words: Words) -> Page:
        me = self.shopper
        match parts:
            case []:
                return 200, pages.home(me)
            case ["search"]:
                query = Query.read(words)
                return 200, pages.results(me, query, query.find(me.products.values()))
            case ["product", key] if key in me.products:
                return 200, pages.product(me, me.products[key])
            case ["cart"]:
                return 200, pages.cart(me, status=_news(me, words))
            case ["checkout"]:
                return 200, pages.checkout(me, {})
            case ["placed", number] if number in [o["number"] for o in me.state["orders"]]:
                return 200, pages.placed(me, number)
            case ["favourites"]:
                return 200, pages.favourites(me)
            case ["login"]:
                return 200, pages.login(me)
            case ["account"] | ["address"] | ["orders", _] if not me.state["user"]:
                return 303, "/login"
            case ["account"]:
                return 200, pages.account(me)
            case ["address"]:
                return 200, pages.address(me, {}, status="Address saved" if words.get("saved") else "")
            case ["orders", number] if number in [o["number"] for o in me.state["past"]]:
                status = "Order cancelled" if words.get("cancelled") else ""
                return 200, pages.past(me, me.past(number), status=status)
        return 404, pages.missing(me)

    def _cart(self, parts: list[str], words: Words) -> Page:
        me = self.shopper
        match parts:
            case ["add", key] if key in me.products:
                try:
                    me.add(key, words.get("quantity", "1"))
                except Refused as no:
                    return 422, pages.product(me, me.products[key], str(no))
                return 303, f"/cart?added={key}"
            case ["change", key] if key in me.products:
                try:
                    me.change(key, words.get("quantity", ""))
                except Refused as no:
                    return 422, pages.cart(me, alert=str(no))
                return 303, f"/cart?{'changed' if key in me.state['cart'] else 'removed'}={key}"
        return 404, pages.missing(me)

    def _favour(self, parts: list[str], words: Words) -> Page:
        if len(parts) != 1 or parts[0] not in self.shopper.products:
            return 404, pages.missing(self.shopper)
        on = bool(words.get("on"))
        self.shopper.favour(parts[0], on)
        return 303, f"/favourites?{'saved' if on else 'removed'}={parts[0]}"

    def _checkout(self, parts: list[str], words: Words) -> Page:
        try:
            return 303, f"/placed/{self.shopper.place(words)}"
        except Refused as no:
            return 422, pages.checkout(self.shopper, words, str(no))

    def _login(self, parts: list[str], words: Words) -> Page:
        try:
            self.shopper.log_in(words.get("username", ""), words.get("password", ""))
        except Refused as no:
            return 422, pages.login(self.shopper, words.get("username", ""), str(no))
        return 303, "/account"

    def _logout(self, parts: list[str], words: Words) -> Page:
        self.shopper.log_out()
        return 303, "/"

    def _order(self, parts: list[str], words: Words) -> Page:
        me = self.shopper
        if not me.state["user"]:
            return 303, "/login"
        try:
            match parts:
                case [number, "cancel"]:
                    me.cancel(number)
                    return 303, f"/orders/{quote(number)}?cancelled=1"
                case [number, "again"]:
                    me.again(number)
                    return 303, f"/cart?again={quote(number)}"
        except Refused as no:
            known = parts[0] in [o["number"] for o in me.state["past"]]
            return 422, pages.past(me, me.past(parts[0]), str(no)) if known else pages.missing(me)
        return 404, pages.missing(me)

    def _address(self, parts: list[str], words: Words) -> Page:
        if not self.shopper.state["user"]:
            return 303, "/login"
        try:
            self.shopper.move(words)
        except Refused as no:
            return 422, pages.address(self.shopper, words, alert=str(no))
        return 303, "/address?saved=1"


def _news(shopper: Shopper, words: Words) -> str:
    for word in ("added", "changed", "removed"):
        if (found := shopper.products.get(words.get(word, ""))) is not None:
            return f"{word.capitalize()}: {found.name}"
    return "Added the order's products" if words.get("again") else ""
