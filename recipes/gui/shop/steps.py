"""How a shopper takes each milestone of a plan: whether it is behind, and the calls that lead on from a screen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from orchard_cli.trajectory import ToolCall

from .screen import Screen, Thing
from .storefront.catalog import money
from .storefront.listing import SORTS, cents
from .storefront.pages import FIELDS

Milestone = Mapping[str, Any]
Turn = tuple[str, tuple[ToolCall, ...]]  # thought, calls
LOST = "I cannot see how to go on from here, so I go back to the start."


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call_0", name, arguments)


def click(thing: Thing) -> ToolCall:
    return call("click", id=thing.id)


def write(thing: Thing, text: str) -> ToolCall:
    return call("write", id=thing.id, message=text)


def behind(milestone: Milestone, seen: Sequence[Screen]) -> int:
    """How many screens it took until the milestone was reached; -1 if it was not. Addresses tell."""
    for at, screen in enumerate(seen):
        if REACHED[milestone["do"]](milestone, screen):
            return at
    return -1


def step(milestone: Milestone, screen: Screen, home: str) -> Turn:
    """The next calls towards a milestone. home: the address of the shop's first page, for one who is lost."""
    turn = STEPS[milestone["do"]](milestone, screen)
    if turn is not None:
        return turn
    if screen.more:
        return "It must be further down.", (call("scroll", direction="down", amount=0.8),)
    start = screen.find("link", "Home")
    return LOST, (click(start) if start else call("goto_url", url=home),)


def _at(path: str, **words: str) -> Callable[[Milestone, Screen], bool]:
    """A test for an address; braces are filled from the milestone."""

    def reached(m: Milestone, screen: Screen) -> bool:
        wanted = {k: v.format(**m) for k, v in words.items()}
        return screen.place.path.startswith(path.format(**m)) and wanted.items() <= screen.words.items()

    return reached


def _browsed(m: Milestone, screen: Screen) -> bool:
    return screen.place.path == "/search" and all(_has(screen, k, v) for k, v in m["query"].items())


def _has(screen: Screen, key: str, value: Any) -> bool:
    found = screen.words.get(key, "")
    return cents(found) == value if key in ("low", "high") else found == str(value)


def _browse(m: Milestone, screen: Screen) -> Turn | None:
    """Category first, then one filter at a time, then the order."""
    query = m["query"]
    if screen.place.path != "/search" or not _has(screen, "category", query["category"]):
        link = screen.find("link", query["category"])
        return (f"I open {query['category']}.", (click(link),)) if link else None
    if "high" in query and not _has(screen, "high", query["high"]):
        box, button = screen.find("box", "Highest price"), screen.find("button", "Apply prices")
        most = money(query["high"])[1:]
        return ("I set the highest price.", (write(box, most), click(button))) if box and button else None
    names = {"colour": f"Only {query.get('colour')}", "rating": "Only 4 stars and more"}
    names["sort"] = f"Sort by {SORTS[query['sort']]}" if "sort" in query else ""
    for key in ("colour", "rating", "sort"):
        if key in query and not _has(screen, key, query[key]):
            link = screen.find("link", names[key])
            return (f"{names[key]}.", (click(link),)) if link else None
    return None


def _view(m: Milestone, screen: Screen) -> Turn | None:
    """Open a product's page: from a list that shows it, else by a search for its name."""
    link = screen.find("link", m["name"], begins=True)
    if link and screen.place.path in ("/search", "/favourites"):
        return f"There is the {m['name']}.", (click(link),)
    box, button = screen.find("box", "Search products"), screen.find("button", "Search")
    if not (box and button) or screen.words.get("q", "").lower() == m["name"].lower():
        return None
    return f"I search for the {m['name']}.", (write(box, m["name"]), click(button))


def _add(m: Milestone, screen: Screen) -> Turn | None:
    if screen.place.path != f"/product/{m['product']}":
        return _view(m, screen)
    box, button = screen.find("box", "Quantity"), screen.find("button", "Add to cart")
    if not button or m["quantity"] != 1 and not box:
        return None
    first = (write(box, str(m["quantity"])),) if box and m["quantity"] != 1 else ()
    return "I put it into the cart.", (*first, click(button))


def _save(m: Milestone, screen: Screen) -> Turn | None:
    if screen.place.path != f"/product/{m['product']}":
        return _view(m, screen)
    button = screen.find("button", "Save to favourites")
    return ("I save it.", (click(button),)) if button else None


def _login(m: Milestone, screen: Screen) -> Turn | None:
    name, secret = screen.find("box", "User name"), screen.find("box", "Password")
    button = screen.find("button", "Log in")
    if name and secret and button:
        return "I log in.", (write(name, m["username"]), write(secret, m["password"]), click(button))
    return _go(screen, "Log in", "I have to log in first.")


def _order(m: Milestone, screen: Screen) -> Turn | None:
    link = screen.find("link", f"Order {m['number']},", begins=True)
    return (f"I open order {m['number']}.", (click(link),)) if link else _go(screen, "Account", "I look at my orders.")


def _on_order(label: str, thought: str) -> Callable[[Milestone, Screen], Turn | None]:
    def act(m: Milestone, screen: Screen) -> Turn | None:
        if screen.place.path != f"/orders/{m['number']}":
            return _order(m, screen)
        button = screen.find("button", label)
        return (thought, (click(button),)) if button else None

    return act


def _change(m: Milestone, screen: Screen) -> Turn | None:
    box = screen.find("box", f"Quantity of {m['name']}")
    button = screen.find("button", f"Update {m['name']}")
    if box and button:
        return "I correct the quantity.", (write(box, str(m["quantity"])), click(button))
    return _to_cart(screen)


def _remove(m: Milestone, screen: Screen) -> Turn | None:
    button = screen.find("button", f"Remove {m['name']}")
    if button and screen.place.path == "/cart":
        return "I take it out.", (click(button),)
    return _to_cart(screen)


def _checkout(m: Milestone, screen: Screen) -> Turn | None:
    radio = screen.find("radio", f"{m['delivery']} delivery", begins=True)
    filled, button = _filled(m, screen), screen.find("button", "Place order")
    if radio and filled and button:
        return "I fill in the form and order.", (*filled, click(radio), click(button))
    if screen.place.path == "/cart":
        return _go(screen, "Go to checkout", "The cart is right, I go to the checkout.")
    return _to_cart(screen)


def _address(m: Milestone, screen: Screen) -> Turn | None:
    filled, button = _filled(m, screen), screen.find("button", "Save address")
    if filled and button:
        return "I write the new address.", (*filled, click(button))
    link = screen.find("link", "Delivery address")
    if link and screen.place.path == "/account":
        return "The address is here.", (click(link),)
    return _go(screen, "Account", "I open my account.")


def _filled(m: Milestone, screen: Screen) -> tuple[ToolCall, ...]:
    boxes = {key: screen.find("box", label) for key, label in FIELDS.items()}
    return tuple(write(box, m["address"][key]) for key, box in boxes.items() if box) if all(boxes.values()) else ()


def _to_cart(screen: Screen) -> Turn | None:
    link = screen.find("link", "Cart (", begins=True)
    return ("I open the cart.", (click(link),)) if link and screen.place.path != "/cart" else None


def _go(screen: Screen, name: str, thought: str) -> Turn | None:
    link = screen.find("link", name)
    return (thought, (click(link),)) if link else None


def _answer(m: Milestone, screen: Screen) -> Turn | None:
    return "That is what was asked.", (call("done", response=m["text"]),)


STEPS: dict[str, Callable[[Milestone, Screen], Turn | None]] = {
    "browse": _browse,
    "view": _view,
    "add": _add,
    "save": _save,
    "login": _login,
    "order": _order,
    "cancel": _on_order("Cancel order", "I cancel it."),
    "again": _on_order("Buy again", "I put its products into the cart."),
    "change": _change,
    "remove": _remove,
    "checkout": _checkout,
    "address": _address,
    "answer": _answer,
}
REACHED: dict[str, Callable[[Milestone, Screen], bool]] = {
    "browse": _browsed,
    "view": _at("/product/{product}"),
    "add": _at("/cart", added="{product}"),
    "save": _at("/favourites", saved="{product}"),
    "login": _at("/account"),
    "order": _at("/orders/{number}"),
    "cancel": _at("/orders/{number}", cancelled="1"),
    "again": _at("/cart", again="{number}"),
    "change": _at("/cart", changed="{product}"),
    "remove": _at("/cart", removed="{product}"),
    "checkout": _at("/placed/"),
    "address": _at("/address", saved="1"),
    "answer": lambda m, screen: False,
}


def home_of(screens: Sequence[Screen]) -> str:
    """The first page of the shop that was seen."""
    first = next((s.url for s in screens if s.url), "http://127.0.0.1/")
    parts = urlsplit(first)
    return f"{parts.scheme}://{parts.netloc}/"
