"""What the one shopper of this server has done: cart, orders, favourites, log-in. Written down after every change."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .catalog import Address, account, catalogue

SHIPPING = {"standard": 495, "express": 1290}  # cents
MOST = 99  # pieces of one product in a cart
State = dict[str, Any]


class Refused(Exception):
    """What the shop will not do; the message is shown on the page."""


class Shopper:
    """The state, and every way to change it. Methods raise `Refused`.

    `start` may hold `cart` ({product id: quantity}) and `favourites` ([product id]). The file is replaced whole, so
    that a reader never sees half of it.
    """

    def __init__(self, seed: int, file: Path, start: Mapping[str, Any] | None = None):
        self.file = file
        self.reset(seed, start or {})

    def reset(self, seed: int, start: Mapping[str, Any]) -> None:
        self.products, self.account = catalogue(seed), account(seed)
        self.state: State = {
            "cart": {p: int(n) for p, n in dict(start.get("cart", {})).items() if p in self.products},
            "favourites": [p for p in start.get("favourites", ()) if p in self.products],
            "user": "",
            "address": asdict(self.account.address),
            "past": [asdict(order) | {"items": dict(order.items)} for order in self.account.orders],
            "orders": [],
        }
        self._write()

    @property
    def pieces(self) -> int:
        return sum(self.state["cart"].values())

    def total(self, items: Mapping[str, int]) -> int:
        """Cents, without shipping."""
        return sum(self.products[p].price * n for p, n in items.items())

    def add(self, product: str, quantity: str) -> None:
        self._put(product, self.state["cart"].get(product, 0) + self._number(quantity, least=1))

    def change(self, product: str, quantity: str) -> None:
        """Set the quantity of what is in the cart; 0 takes it out."""
        if product not in self.state["cart"]:
            raise Refused("That product is not in your cart.")
        self._put(product, self._number(quantity, least=0))

    def favour(self, product: str, on: bool) -> None:
        kept = [p for p in self.state["favourites"] if p != product]
        self.state["favourites"] = [*kept, product] if on and product in self.products else kept
        self._write()

    def log_in(self, username: str, password: str) -> None:
        if (username.strip().lower(), password.strip()) != (self.account.username, self.account.password):
            raise Refused("User name or password is wrong.")
        self.state["user"] = self.account.username
        self._write()

    def log_out(self) -> None:
        self.state["user"] = ""
        self._write()

    def move(self, fields: Mapping[str, str]) -> None:
        self.state["address"] = asdict(self._address(fields))
        self._write()

    def place(self, fields: Mapping[str, str]) -> str:
        """Order what is in the cart; the new order's number."""
        if not self.state["cart"]:
            raise Refused("Your cart is empty.")
        sent_to, delivery = self._address(fields), fields.get("delivery", "")
        if delivery not in SHIPPING:
            raise Refused("Please choose how we should deliver.")
        number = str(90001 + len(self.state["orders"]))
        order = {"number": number, "items": dict(self.state["cart"]), "address": asdict(sent_to), "delivery": delivery}
        self.state["orders"].append(order)
        self.state["cart"] = {}
        self._write()
        return number

    def cancel(self, number: str) -> None:
        order = self.past(number)
        if order["status"] != "processing":
            raise Refused(f"Order {number} is {order['status']} and can no longer be cancelled.")
        order["status"] = "cancelled"
        self._write()

    def again(self, number: str) -> None:
        """Put the pieces of a past order into the cart."""
        for product, n in self.past(number)["items"].items():
            self.state["cart"][product] = min(MOST, self.state["cart"].get(product, 0) + n)
        self._write()

    def past(self, number: str) -> State:
        found: State | None = next((o for o in self.state["past"] if o["number"] == number), None)
        if found is None:
            raise Refused("There is no such order.")
        return found

    def _put(self, product: str, quantity: int) -> None:
        if product not in self.products:
            raise Refused("We do not have that product.")
        stock = min(MOST, self.products[product].stock)
        if quantity > stock:
            raise Refused(f"Only {stock} pieces of {self.products[product].name} are in stock.")
        self.state["cart"].pop(product, None) if quantity == 0 else self.state["cart"].update({product: quantity})
        self._write()

    def _number(self, text: str, *, least: int) -> int:
        clean = text.strip()
        if not (clean.isascii() and clean.isdigit() and len(clean) <= 4 and int(clean) >= least):
            raise Refused(f"The quantity must be a whole number, {least} or more.")
        return int(clean)

    def _address(self, fields: Mapping[str, str]) -> Address:
        found = {name: " ".join(fields.get(name, "").split()) for name in Address.__dataclass_fields__}
        if missing := [name for name, text in found.items() if not text]:
            raise Refused(f"Please fill in: {', '.join(missing)}.")
        return Address(**found)

    def _write(self) -> None:
        fresh = self.file.with_name(self.file.name + ".new")
        fresh.write_text(json.dumps(self.state), "utf-8")
        fresh.replace(self.file)
