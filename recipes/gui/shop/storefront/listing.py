"""Which products a search shows: words, filters, order, page."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from .catalog import CATEGORIES, COLOURS, Product, money

PAGE = 8
SORTS = {"price": "price, low to high", "price_down": "price, high to low", "rating": "rating, best first"}


@dataclass(frozen=True)
class Query:
    """What was asked for. Prices in cents, rating in tenths of a star; 0 and empty: any."""

    q: str = ""
    category: str = ""
    colour: str = ""
    low: int = 0
    high: int = 0
    rating: int = 0
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Query":
        """From the words of an address; whatever makes no sense counts as not given."""
        category, colour, sort = given.get("category", ""), given.get("colour", ""), given.get("sort", "")
        rating, page = given.get("rating", ""), given.get("page", "")
        return cls(
            given.get("q", "").strip()[:200],
            category if category in CATEGORIES else "",
            colour if colour in COLOURS else "",
            cents(given.get("low", "")),
            cents(given.get("high", "")),
            int(rating) if re.fullmatch(r"[0-9]{2}", rating) else 0,
            sort if sort in SORTS else "",
            int(page) if re.fullmatch(r"[1-9][0-9]?", page) else 1,
        )

    @property
    def narrowed(self) -> bool:
        return bool(self.colour or self.rating or self.low or self.high)

    @property
    def shown_low(self) -> str:
        return money(self.low)[1:] if self.low else ""

    @property
    def shown_high(self) -> str:
        return money(self.high)[1:] if self.high else ""

    def url(self, **changes: Any) -> str:
        """The address of this query with `changes`, on its first page unless that is changed."""
        return f"/search?{urlencode(replace(self, **{'page': 1, **changes}).words())}"

    def words(self) -> dict[str, str]:
        prices = {"low": self.shown_low, "high": self.shown_high}
        page = {"page": str(self.page)} if self.page > 1 else {}
        return self.kept() | {k: v for k, v in prices.items() if v} | page

    def kept(self) -> dict[str, str]:
        """All but prices and page, as the price form sends them along."""
        texts = {"q": self.q, "category": self.category, "colour": self.colour, "sort": self.sort}
        return {k: v for k, v in texts.items() if v} | ({"rating": str(self.rating)} if self.rating else {})

    def find(self, products: Iterable[Product]) -> "Listing":
        words = self.q.lower().split()
        open_to = [p for p in products if self._fits(p, words)]
        found = [p for p in open_to if not self.colour or p.colour == self.colour]
        orders: dict[str, Any] = {
            "price": lambda p: p.price,
            "price_down": lambda p: -p.price,
            "rating": lambda p: -p.rating,
        }
        if self.sort:
            found.sort(key=orders[self.sort])
        pages = max(1, -(-len(found) // PAGE))
        page = min(self.page, pages)
        colours = [c for c in COLOURS if any(p.colour == c for p in open_to)]
        return Listing(tuple(found[(page - 1) * PAGE : page * PAGE]), len(found), page, pages, tuple(colours))

    def _fits(self, p: Product, words: list[str]) -> bool:
        text = f"{p.name} {p.colour} {p.category}".lower()
        return (
            all(w in text for w in words)
            and self.category in ("", p.category)
            and p.price >= self.low
            and (not self.high or p.price <= self.high)
            and p.rating >= self.rating
        )


@dataclass(frozen=True)
class Listing:
    shown: tuple[Product, ...]
    total: int
    page: int
    pages: int
    colours: tuple[str, ...]  # that a filter can still choose


def cents(text: str) -> int:
    """`12.50`, `$12.5` or `12` as cents; 0 for anything else."""
    found = re.fullmatch(r"\s*\$?\s*([0-9]{1,6})(?:\.([0-9]{1,2}))?\s*", text)
    return int(found[1]) * 100 + int((found[2] or "0").ljust(2, "0")) if found else 0
