"""The shop over real HTTP: every page, every act, and what it refuses."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlencode, urlsplit

import pytest
from orchard_cli.recipes.gui.shop import host
from orchard_cli.recipes.gui.shop.grade import grade, read_state
from orchard_cli.recipes.gui.shop.storefront.catalog import PER_CATEGORY, account, catalogue
from orchard_cli.recipes.gui.shop.storefront.listing import Query, cents
from orchard_cli.recipes.gui.shop.tasks import generate

from .conftest import TOKEN, Open
from .reader import WordBrowser

SEED = 3
PRODUCTS = catalogue(SEED)
FIRST = next(iter(PRODUCTS.values()))
ADDRESS = {"name": "Ana Berg", "street": "1 Mill Lane", "city": "Graz", "postcode": "12345"}


@pytest.fixture
def opened(shop: Callable[..., Open]) -> Open:
    return shop(SEED)


@pytest.fixture
def browser(opened: Open) -> Iterator[WordBrowser]:
    browser = WordBrowser(opened.url)
    yield browser
    browser.close()


def ask(opened: Open, method: str, path: str, body: bytes | str = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(opened.url).netloc, timeout=10)
    connection.request(method, path, body or None, headers)
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


def log_in(browser: WordBrowser) -> None:
    me = account(SEED)
    browser.visit(f"{browser.url}login", {"username": me.username, "password": me.password})


def test_every_page_is_sound_html_whose_controls_have_names(browser: WordBrowser) -> None:
    home = browser.url
    browser.visit(f"{home}cart/add/{FIRST.id}", {"quantity": "2"})
    browser.visit(f"{home}favourites/{FIRST.id}", {"on": "1"})
    browser.url = home
    log_in(browser)
    orders = [f"orders/{o.number}" for o in account(SEED).orders]
    pages = ["", "search", "search?category=Mugs&sort=rating", f"product/{FIRST.id}", "cart", "checkout", "favourites"]
    for page in [*pages, "login", "account", "address", *orders]:
        browser.visit(home + page)
        assert browser.status == 200, page
        assert all(thing.name.strip() for thing in browser.page.things), page
        assert len(browser.page.things) < 40
        assert "http" not in browser.html and "<script" not in browser.html


def test_search_shows_what_fits_in_the_order_asked_for(browser: WordBrowser) -> None:
    home = browser.url
    browser.visit(f"{home}search?{urlencode({'category': 'Mugs', 'sort': 'price'})}")
    lines = [t.name for t in browser.page.things if t.attributes.get("href", "").startswith("/product/")]
    mugs = sorted((p for p in PRODUCTS.values() if p.category == "Mugs"), key=lambda p: p.price)
    assert [line.strip() for line in lines] == [p.line for p in mugs[:8]]
    browser.click(browser.named("link", "Page 2"))
    lines = [t.name for t in browser.page.things if t.attributes.get("href", "").startswith("/product/")]
    assert [line.strip() for line in lines] == [p.line for p in mugs[8:]]
    assert browser.page.title.startswith(f"{PER_CATEGORY} products in Mugs")


def test_filters_add_up_and_can_be_removed(browser: WordBrowser) -> None:
    home = browser.url
    browser.visit(f"{home}search?category=Lamps")
    browser.named("textbox", "Highest price").value = "60"
    browser.click(browser.named("button", "Apply prices"))
    browser.click(browser.named("link", "Only 4 stars and more"))
    wanted = [p for p in PRODUCTS.values() if p.category == "Lamps" and p.price <= 6000 and p.rating >= 40]
    assert browser.page.title.startswith(f"{len(wanted)} product")
    browser.click(browser.named("link", "Remove all filters"))
    assert browser.page.title.startswith(f"{PER_CATEGORY} products")


def test_words_are_found_in_any_order_and_shown_without_harm(browser: WordBrowser) -> None:
    brand, noun = FIRST.name.split(" ", 1)
    browser.named("searchbox", "Search products").value = f"{noun} {brand}".upper()
    browser.click(browser.named("button", "Search"))
    assert FIRST.line in browser.html
    hostile = '"><script>alert(1)</script><b x="'
    browser.named("searchbox", "Search products").value = hostile
    browser.click(browser.named("button", "Search"))
    assert "<script" not in browser.html and browser.named("searchbox", "Search products").value == hostile


def test_the_cart_adds_changes_and_removes(browser: WordBrowser, opened: Open) -> None:
    browser.visit(f"{opened.url}product/{FIRST.id}")
    browser.named("textbox", "Quantity").value = "3"
    browser.click(browser.named("button", "Add to cart"))
    assert opened.state()["cart"] == {FIRST.id: 3}
    assert browser.url.endswith(f"/cart?added={FIRST.id}")
    browser.named("textbox", f"Quantity of {FIRST.name}").value = "5"
    browser.click(browser.named("button", f"Update {FIRST.name}"))
    assert opened.state()["cart"] == {FIRST.id: 5} and browser.named("link", "Cart (5)")
    browser.click(browser.named("button", f"Remove {FIRST.name}"))
    assert opened.state()["cart"] == {}


@pytest.mark.parametrize("quantity", ["", "-1", "0", "1.5", "x", "²", "9999", "99999999", "1e3"])
def test_no_impossible_quantity_enters_the_cart(opened: Open, quantity: str) -> None:
    body = urlencode({"quantity": quantity})
    status, page = ask(opened, "POST", f"/cart/add/{FIRST.id}", body)
    assert status == 422 and b'role="alert"' in page
    assert opened.state()["cart"] == {}


def test_an_order_needs_a_whole_address_and_a_delivery(browser: WordBrowser, opened: Open) -> None:
    browser.visit(f"{opened.url}cart/add/{FIRST.id}", {"quantity": "1"})
    browser.visit(f"{opened.url}checkout", {**ADDRESS, "city": " "})
    assert browser.status == 422 and "Please fill in: city." in browser.html
    assert browser.named("textbox", "Street").value == ADDRESS["street"]
    browser.visit(f"{opened.url}checkout", ADDRESS)
    assert browser.status == 422 and opened.state()["orders"] == []
    browser.visit(f"{opened.url}checkout", {**ADDRESS, "delivery": "express"})
    assert opened.state()["cart"] == {}
    assert opened.state()["orders"] == [
        {"number": "90001", "items": {FIRST.id: 1}, "address": ADDRESS, "delivery": "express"}
    ]
    browser.visit(f"{opened.url}checkout", {**ADDRESS, "delivery": "express"})
    assert browser.status == 422 and len(opened.state()["orders"]) == 1


def test_orders_are_for_the_customer_who_is_logged_in(browser: WordBrowser, opened: Open) -> None:
    order = next(o for o in account(SEED).orders if o.status == "processing")
    for page in ("account", "address", f"orders/{order.number}"):
        browser.visit(opened.url + page)
        assert browser.url.endswith("/login") and order.number not in browser.html
    browser.visit(f"{opened.url}orders/{order.number}/cancel", {})
    assert browser.url.endswith("/login")
    browser.visit(f"{opened.url}login", {"username": account(SEED).username, "password": "guess"})
    assert browser.status == 422 and opened.state()["user"] == ""
    browser.url = opened.url
    log_in(browser)
    browser.visit(f"{opened.url}orders/{order.number}/cancel", {})
    assert {o["number"]: o["status"] for o in opened.state()["past"]}[order.number] == "cancelled"
    browser.visit(f"{opened.url}orders/{order.number}/cancel", {})
    assert browser.status == 422 and "can no longer be cancelled" in browser.html


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/product/p0", "/product/", "/cart/add/p0", "/orders/1/eat", "//[", "/%00", "/..%2f", "/placed/1"],
)
def test_unknown_addresses_are_answered_and_change_nothing(opened: Open, path: str) -> None:
    before = opened.state()
    assert ask(opened, "GET", path)[0] in (303, 404)
    assert ask(opened, "POST", path, "quantity=1")[0] in (303, 404)
    assert opened.state() == before


def test_the_graders_address_is_a_missing_page_without_the_token(opened: Open) -> None:
    missing = ask(opened, "GET", "/nothing")
    assert ask(opened, "GET", "/__state") == missing
    assert ask(opened, "GET", "/__state", **{"X-Shop-Token": "guess"}) == missing
    status, body = ask(opened, "GET", "/__state", **{"X-Shop-Token": TOKEN})
    assert status == 200 and json.loads(body) == opened.state()
    assert ask(opened, "POST", "/__reset", b"{}")[0] == 404
    ask(opened, "POST", f"/cart/add/{FIRST.id}", "quantity=1")
    assert ask(opened, "POST", "/__reset", b'{"seed": 4}', **{"X-Shop-Token": TOKEN})[0] == 200
    assert opened.state()["cart"] == {} and opened.state()["past"][0]["number"] == account(4).orders[0].number


def test_one_server_serves_attempt_after_attempt(opened: Open) -> None:
    task = next(iter(generate("eval", 1, families=["remove"])))
    method, path, headers, body = host.reset(task, TOKEN)
    assert ask(opened, method, path, body, **headers)[0] == 200
    assert opened.state()["cart"] == task.data["shop"]["start"]["cart"]
    method, path, headers, body = host.look(TOKEN)
    state = read_state(ask(opened, method, path, body, **headers)[1])
    (gone,) = state["cart"].keys() - task.hidden["changes"]["cart"].keys()
    ask(opened, "POST", f"/cart/change/{gone}", "quantity=0")
    assert grade(task, read_state(ask(opened, method, path, body, **headers)[1]), "")[0] == 1.0


def test_no_token_opens_a_shop_that_has_none(opened: Open) -> None:
    opened.shop.shop._token = ""
    assert ask(opened, "GET", "/__state", **{"X-Shop-Token": ""})[0] == 404


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /cart HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n",
        b"POST /cart HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
    ],
)
def test_broken_requests_do_not_stop_the_shop(opened: Open, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(opened.url).port), timeout=10) as raw:
        raw.sendall(sent)
        raw.recv(1000)
    assert ask(opened, "GET", "/")[0] == 200


def test_a_query_says_itself_again() -> None:
    query = Query("red lamp", "Lamps", "red", 1050, 9900, 40, "price", 2)
    words = dict(pair.split("=") for pair in query.url(page=2).split("?")[1].replace("+", " ").split("&"))
    assert Query.read(words) == query
    assert Query.read({"category": "Guns", "sort": "x", "rating": "x", "page": "0", "low": "1,5"}) == Query()


@pytest.mark.parametrize(("text", "wanted"), [("12.50", 1250), ("$3", 300), ("$ 4.5", 450), ("-3", 0), ("1.234", 0)])
def test_amounts_are_read_exactly(text: str, wanted: int) -> None:
    assert cents(text) == wanted


def test_a_catalogue_follows_its_seed_and_is_unambiguous() -> None:
    assert catalogue(SEED) == PRODUCTS and catalogue(SEED + 1) != PRODUCTS
    assert len({p.name for p in PRODUCTS.values()}) == len(PRODUCTS)
    for category in {p.category for p in PRODUCTS.values()}:
        shelf = [p for p in PRODUCTS.values() if p.category == category]
        assert len({p.price for p in shelf}) == len({p.rating for p in shelf}) == len(shelf)
