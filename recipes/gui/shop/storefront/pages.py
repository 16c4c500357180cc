"""The pages as HTML: small, without scripts, every control with a name that a screen reader would say."""

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import urlencode

from .catalog import CATEGORIES, Product, money, stars
from .listing import PAGE, SORTS, Listing, Query
from .shopper import SHIPPING, Shopper, State

NAME = "Millrace Market"
STYLE = (
    "body{font:16px/1.5 sans-serif;margin:0 auto;max-width:60rem;padding:0 1rem}nav a,nav form{margin-right:1rem}"
    "nav form,form.row{display:inline}li{margin:.3rem 0}label{margin-right:1rem}.alert{color:#a00}"
)
FIELDS = {"name": "Full name", "street": "Street", "city": "City", "postcode": "Postcode"}


def page(title: str, body: str, shopper: Shopper, *, alert: str = "", status: str = "", query: str = "") -> str:
    """A whole page. `title` and `alert` are text, `body` is HTML."""
    account = link("/account", "Account") if shopper.state["user"] else link("/login", "Log in")
    said = f'<p role="alert" class="alert">{escape(alert)}</p>' if alert else ""
    said += f'<p role="status">{escape(status)}</p>' if status else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - {NAME}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'
        f'<nav aria-label="Main">{link("/", "Home")}{link("/cart", f"Cart ({shopper.pieces})")}'
        f"{link('/favourites', 'Favourites')}{account}"
        f'<form action="/search" role="search">{textbox("q", "Search products", query, kind="search")}'
        f"{button('Search')}</form></nav><main><h1>{escape(title)}</h1>{said}{body}</main></body></html>"
    )


def home(shopper: Shopper) -> str:
    links = items(link(f"/search?{urlencode({'category': c})}", c) for c in CATEGORIES)
    return page("Welcome", f"<h2>Categories</h2>{links}", shopper)


def results(shopper: Shopper, query: Query, found: Listing) -> str:
    """One page of products, and links that narrow or sort them."""
    what = query.category or "the shop"
    narrow = [link(query.url(colour=c), f"Only {c}") for c in found.colours if c != query.colour]
    if query.rating != 40:
        narrow.append(link(query.url(rating=40), "Only 4 stars and more"))
    if query.narrowed:
        narrow.append(link(query.url(colour="", rating=0, low=0, high=0), "Remove all filters"))
    order = [link(query.url(sort=key), f"Sort by {label}") for key, label in SORTS.items() if key != query.sort]
    kept = "".join(f'<input type="hidden" name="{k}" value="{escape(v)}">' for k, v in query.kept().items())
    prices = (
        f'<form action="/search" aria-label="Price">{kept}{textbox("low", "Lowest price", query.shown_low)}'
        f"{textbox('high', 'Highest price', query.shown_high)}{button('Apply prices')}</form>"
    )
    pages = [link(query.url(page=n), f"Page {n}") for n in range(1, found.pages + 1) if n != found.page]
    listed = items(link(f"/product/{p.id}", p.line) for p in found.shown)
    more = f'<nav aria-label="Pages">{"".join(pages)}</nav>' if pages else ""
    body = f"<p>{''.join(narrow)}</p><p>{''.join(order)}</p>{prices}{listed}{more}"
    count = f"{found.total} product{'' if found.total == 1 else 's'} in {what}"
    first = (found.page - 1) * PAGE + 1
    status = f"Showing {first} to {first + len(found.shown) - 1}" if found.shown else "Nothing fits."
    return page(count, body, shopper, query=query.q, status=status)


def product(shopper: Shopper, p: Product, alert: str = "") -> str:
    facts = {
        "Price": money(p.price),
        "Colour": p.colour,
        "Rating": f"{stars(p.rating)} from {p.reviews} reviews",
        "Brand": p.brand,
        "Category": p.category,
        "In stock": str(p.stock),
    }
    rows = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    on = p.id in shopper.state["favourites"]
    label = "Remove from favourites" if on else "Save to favourites"
    save = form(f"/favourites/{p.id}", button(label), on="" if on else "1")
    buy = form(f"/cart/add/{p.id}", textbox("quantity", "Quantity", "1") + button("Add to cart"))
    return page(p.name, f"<dl>{rows}</dl>{buy}{save}", shopper, alert=alert)


def cart(shopper: Shopper, *, alert: str = "", status: str = "") -> str:
    rows = []
    for key, n in shopper.state["cart"].items():
        p = shopper.products[key]
        change = textbox("quantity", f"Quantity of {p.name}", str(n), id=key) + button("Update", f"Update {p.name}")
        take = form(f"/cart/change/{key}", button("Remove", f"Remove {p.name}"), row=True, quantity="0")
        rows.append(
            f"{link(f'/product/{key}', p.line)} {form(f'/cart/change/{key}', change, row=True)}{take}"
            f"<span>{n} x {money(p.price)} = {money(n * p.price)}</span>"
        )
    total = money(shopper.total(shopper.state["cart"]))
    body = f"{items(rows)}<p>Total {total}</p>{link('/checkout', 'Go to checkout')}" if rows else "<p>Nothing here.</p>"
    return page("Your cart", body, shopper, alert=alert, status=status)


def checkout(shopper: Shopper, typed: Mapping[str, str], alert: str = "") -> str:
    if not shopper.state["cart"]:
        return page("Checkout", "<p>Your cart is empty.</p>", shopper, alert=alert)
    known = shopper.state["address"] if shopper.state["user"] else {}
    choices = "".join(
        f'<label><input type="radio" name="delivery" value="{key}"'
        f"{' checked' if typed.get('delivery') == key else ''}>{key.capitalize()} delivery, {money(cents)}</label>"
        for key, cents in SHIPPING.items()
    )
    fields = addressed({**known, **typed}) + f"<fieldset><legend>Delivery</legend>{choices}</fieldset>"
    lines = items(escape(f"{n} x {shopper.products[p].line}") for p, n in shopper.state["cart"].items())
    total = f"<p>Total {money(shopper.total(shopper.state['cart']))}, without delivery</p>"
    return page("Checkout", lines + total + form("/checkout", fields + button("Place order")), shopper, alert=alert)


def placed(shopper: Shopper, number: str) -> str:
    return page("Thank you", f"<p>Your order has the number {escape(number)}.</p>", shopper, status="Order placed")


def login(shopper: Shopper, username: str = "", alert: str = "") -> str:
    fields = textbox("username", "User name", username) + textbox("password", "Password", "", kind="password")
    return page("Log in", form("/login", fields + button("Log in")), shopper, alert=alert)


def account(shopper: Shopper) -> str:
    lines = []
    for order in shopper.state["past"]:
        said = f"Order {order['number']}, {order['date']}, {order['status']}, {money(shopper.total(order['items']))}"
        lines.append(link(f"/orders/{order['number']}", said))
    more = link("/address", "Delivery address") + form("/logout", button("Log out"))
    return page("Your account", f"<h2>Orders</h2>{items(lines)}{more}", shopper)


def past(shopper: Shopper, order: State, alert: str = "", status: str = "") -> str:
    lines = items(link(f"/product/{p}", f"{n} x {shopper.products[p].name}") for p, n in order["items"].items())
    total = money(shopper.total(order["items"]))
    facts = f"<p>Ordered on {order['date']}</p><p>Status: {order['status']}</p><p>Total: {total}</p>"
    acts = form(f"/orders/{order['number']}/again", button("Buy again"))
    if order["status"] == "processing":
        acts += form(f"/orders/{order['number']}/cancel", button("Cancel order"))
    return page(f"Order {order['number']}", facts + lines + acts, shopper, alert=alert, status=status)


def address(shopper: Shopper, typed: Mapping[str, str], *, alert: str = "", status: str = "") -> str:
    fields = addressed({**shopper.state["address"], **typed}) + button("Save address")
    return page("Delivery address", form("/address", fields), shopper, alert=alert, status=status)


def favourites(shopper: Shopper) -> str:
    rows = [
        link(f"/product/{p}", shopper.products[p].line)
        + form(f"/favourites/{p}", button("Remove", f"Remove {shopper.products[p].name}"), row=True, on="")
        for p in shopper.state["favourites"]
    ]
    return page("Your favourites", items(rows) if rows else "<p>Nothing here.</p>", shopper)


def missing(shopper: Shopper) -> str:
    return page("Page not found", "<p>There is no such page.</p>", shopper)


def link(href: str, text: str) -> str:
    return f'<a href="{escape(href)}">{escape(text)}</a> '


def button(text: str, label: str = "") -> str:
    named = f' aria-label="{escape(label)}"' if label else ""
    return f'<button type="submit"{named}>{escape(text)}</button>'


def textbox(name: str, label: str, value: str, *, kind: str = "text", id: str = "") -> str:
    key = f"{name}-{id}" if id else name
    return (
        f'<label for="{key}">{escape(label)}</label><input id="{key}" name="{name}" type="{kind}" '
        f'value="{escape(value)}" autocomplete="off">'
    )


def addressed(typed: Mapping[str, str]) -> str:
    return "".join(f"<p>{textbox(key, label, typed.get(key, ''))}</p>" for key, label in FIELDS.items())


def form(action: str, inside: str, *, row: bool = False, **hidden: str) -> str:
    kept = "".join(f'<input type="hidden" name="{k}" value="{escape(v)}">' for k, v in hidden.items())
    return f'<form method="post" action="{escape(action)}"{" class=row" if row else ""}>{kept}{inside}</form>'


def items(html: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{one}</li>' for one in html)}</ul>"
