"""What a shopper may be asked: one function a family. Each draws a problem whose right end is known and unique.

A `Problem` says how the shop's state must look in the end (`changes`; whatever is not named must stay as it was),
what must be answered, and the way of a careful shopper (`plan`, see `plan.py`).
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .storefront.catalog import Account, Address, Product, account, address, catalogue, money
from .storefront.listing import Query

Milestone = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    slots: Mapping[str, object]
    plan: tuple[Milestone, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)  # part of the state → how it must be
    start: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)  # kind, value, and for some: others


class Draw:
    """Everything chance decides about one problem in the shop of one seed."""

    def __init__(self, seed: int, rng: random.Random):
        self.rng = rng
        self.products: list[Product] = list(catalogue(seed).values())
        self.account: Account = account(seed)

    def some(self, n: int) -> list[Product]:
        return self.rng.sample(self.products, n)

    def shelf(self, n: int = 2) -> tuple[str, str, list[Product]]:
        """A category and a colour of which there are at least `n` products, cheapest first."""
        shelves: dict[tuple[str, str], list[Product]] = {}
        for p in self.products:
            shelves.setdefault((p.category, p.colour), []).append(p)
        category, colour = self.rng.choice(sorted(k for k, found in shelves.items() if len(found) >= n))
        return category, colour, sorted(shelves[category, colour], key=lambda p: p.price)

    def sent(self) -> tuple[Address, str]:
        return address(self.rng), self.rng.choice(("standard", "express"))

    def cart(self) -> dict[str, int]:
        return {p.id: self.rng.randint(1, 3) for p in self.some(self.rng.randint(2, 3))}

    def order(self, status: str = "") -> dict[str, Any]:
        found = self.rng.choice([o for o in self.account.orders if status in ("", o.status)])
        prices = {p.id: p.price for p in self.products}
        return asdict(found) | {"items": dict(found.items), "total": sum(prices[p] * n for p, n in found.items)}

    @property
    def login(self) -> str:
        return f"Log in as {self.account.username} with the password {self.account.password}."

    @property
    def logs_in(self) -> Milestone:
        return {"do": "login", "username": self.account.username, "password": self.account.password}


def line(sent_to: Address) -> str:
    """An address as an instruction writes it."""
    return f"{sent_to.name}, {sent_to.street}, {sent_to.city}, {sent_to.postcode}"


def browse(**words: Any) -> Milestone:
    return {"do": "browse", "query": words}


def add(product: Product, n: int = 1) -> Milestone:
    return {"do": "add", "product": product.id, "name": product.name, "quantity": n}


def on(kind: str, product: Product, **more: Any) -> Milestone:
    return {"do": kind, "product": product.id, "name": product.name, **more}


def buys(sent_to: Address, delivery: str) -> Milestone:
    return {"do": "checkout", "address": asdict(sent_to), "delivery": delivery}


def order(items: Mapping[str, int], sent_to: Address, delivery: str) -> dict[str, Any]:
    return {"items": dict(items), "address": asdict(sent_to), "delivery": delivery}


def says(text: str) -> Milestone:
    return {"do": "answer", "text": text}


def cheapest(d: Draw) -> Problem:
    category, colour, found = d.shelf()
    way = (browse(category=category, colour=colour, sort="price"), add(found[0]))
    return Problem({"category": category, "colour": colour}, way, {"cart": {found[0].id: 1}})


def best_rated(d: Draw) -> Problem:
    category = d.rng.choice(sorted({p.category for p in d.products}))
    prices = sorted(p.price for p in d.products if p.category == category)
    high = -(-prices[d.rng.randint(4, 8)] // 100) * 100
    best = Query(category=category, high=high, sort="rating").find(d.products).shown[0]
    way = (browse(category=category, high=high, sort="rating"), add(best))
    return Problem({"category": category, "high": money(high)}, way, {"cart": {best.id: 1}})


def two_items(d: Draw) -> Problem:
    a, b = d.some(2)
    return Problem({"first": a.name, "second": b.name}, (add(a), add(b)), {"cart": {a.id: 1, b.id: 1}})


def quantity(d: Draw) -> Problem:
    (p,), n = d.some(1), d.rng.randint(2, 6)
    return Problem({"first": p.name, "n": n}, (add(p, n),), {"cart": {p.id: n}})


def change_quantity(d: Draw) -> Problem:
    cart = d.cart()
    p = _one_of(d, cart)
    n = d.rng.choice([n for n in range(1, 7) if n != cart[p.id]])
    way = (on("change", p, quantity=n),)
    return Problem({"first": p.name, "n": n}, way, {"cart": cart | {p.id: n}}, {"cart": cart})


def remove(d: Draw) -> Problem:
    cart = d.cart()
    p = _one_of(d, cart)
    rest = {key: n for key, n in cart.items() if key != p.id}
    return Problem({"first": p.name}, (on("remove", p),), {"cart": rest}, {"cart": cart})


def filter_buy(d: Draw) -> Problem:
    category, colour, found = d.shelf()
    sent_to, how = d.sent()
    way = (browse(category=category, colour=colour, sort="price"), add(found[0]), buys(sent_to, how))
    slots = {"category": category, "colour": colour, "address": line(sent_to), "delivery": how}
    return Problem(slots, way, {"cart": {}, "orders": [order({found[0].id: 1}, sent_to, how)]})


def checkout(d: Draw) -> Problem:
    cart, (sent_to, how) = d.cart(), d.sent()
    ends = {"cart": {}, "orders": [order(cart, sent_to, how)]}
    return Problem({"address": line(sent_to), "delivery": how}, (buys(sent_to, how),), ends, {"cart": cart})


def buy_named(d: Draw) -> Problem:
    (p,), n, (sent_to, how) = d.some(1), d.rng.randint(2, 4), d.sent()
    slots = {"first": p.name, "n": n, "address": line(sent_to), "delivery": how}
    return Problem(slots, (add(p, n), buys(sent_to, how)), {"cart": {}, "orders": [order({p.id: n}, sent_to, how)]})


def order_status(d: Draw) -> Problem:
    o = d.order()
    way = (d.logs_in, {"do": "order", "number": o["number"]}, says(o["status"]))
    return Problem(_known(d, o), way, answer={"kind": "status", "value": o["status"]})


def order_total(d: Draw) -> Problem:
    o = d.order()
    way = (d.logs_in, {"do": "order", "number": o["number"]}, says(money(o["total"])))
    return Problem(_known(d, o), way, answer={"kind": "money", "value": o["total"]})


def latest_order(d: Draw) -> Problem:
    last = max(d.account.orders, key=lambda o: o.date)
    others = [o.number for o in d.account.orders if o.date != last.date]
    way = (d.logs_in, says(last.number))
    return Problem({"login": d.login}, way, answer={"kind": "number", "value": int(last.number), "others": others})


def compare(d: Draw) -> Problem:
    shelf = d.rng.choice(sorted({p.category for p in d.products}))
    a, b = d.rng.sample([p for p in d.products if p.category == shelf], 2)
    better = d.rng.choice(("cheaper", "better rated"))
    right = min((a, b), key=lambda p: p.price) if better == "cheaper" else max((a, b), key=lambda p: p.rating)
    other = b if right is a else a
    slots = {"first": a.name, "second": b.name, "better": better}
    way = (on("view", a), on("view", b), says(right.name))
    return Problem(slots, way, answer={"kind": "name", "value": right.name, "others": [other.name]})


def price(d: Draw) -> Problem:
    (p,) = d.some(1)
    return Problem({"first": p.name}, (on("view", p), says(money(p.price))), answer={"kind": "money", "value": p.price})


def count(d: Draw) -> Problem:
    category = d.rng.choice(sorted({p.category for p in d.products}))
    n = Query(category=category, rating=40).find(d.products).total
    way = (browse(category=category, rating=40), says(str(n)))
    return Problem({"category": category}, way, answer={"kind": "number", "value": n})


def favourite(d: Draw) -> Problem:
    (p,) = d.some(1)
    return Problem({"first": p.name}, (on("save", p),), {"favourites": [p.id]})


def cancel_order(d: Draw) -> Problem:
    o = d.order("processing")
    return Problem(
        _known(d, o), (d.logs_in, {"do": "cancel", "number": o["number"]}), {"past": {o["number"]: "cancelled"}}
    )


def buy_again(d: Draw) -> Problem:
    o = d.order()
    return Problem(_known(d, o), (d.logs_in, {"do": "again", "number": o["number"]}), {"cart": o["items"]})


def new_address(d: Draw) -> Problem:
    sent_to, _ = d.sent()
    way = (d.logs_in, {"do": "address", "address": asdict(sent_to)})
    return Problem({"login": d.login, "address": line(sent_to)}, way, {"address": asdict(sent_to)})


def _known(d: Draw, o: Mapping[str, Any]) -> dict[str, object]:
    return {"login": d.login, "number": o["number"]}


def _one_of(d: Draw, cart: Mapping[str, int]) -> Product:
    return d.rng.choice([p for p in d.products if p.id in cart])


FAMILIES: dict[str, Callable[[Draw], Problem]] = {
    f.__name__: f
    for f in (
        *(cheapest, best_rated, two_items, quantity, change_quantity, remove, filter_buy, checkout, buy_named),
        *(order_status, order_total, latest_order, compare, price, count, favourite, cancel_order, buy_again),
        new_address,
    )
}
