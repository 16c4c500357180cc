"""The shop: products and orders."""

from .answer import Refusal
from .scene import Scene, listed, matches, needed
from .state import Row

STATUSES = ("placed", "shipped", "delivered", "cancelled", "returned")


def shop_search(at: Scene, query: str) -> str:
    rows = [row for row in at.state.rows("product") if matches(query, row["name"], row["about"])]
    return listed(map(_product, rows), none="no products")


def shop_orders(at: Scene, status: str, query: str) -> str:
    if status not in ("", *STATUSES):
        raise Refusal("bad_arguments", f"status must be one of {', '.join(STATUSES)}")
    rows = [row for row in at.state.rows("order") if not status or row["status"] == status]
    lines = [_order(at, row) for row in rows]
    return listed((line for line in lines if matches(query, line)), none="no orders")


def shop_buy(at: Scene, product: str, quantity: int, address: str) -> str:
    row, quantity = at.state.get("product", product), quantity or 1
    if not 1 <= quantity <= 1000:
        raise Refusal("bad_arguments", "quantity must be from 1 to 1000")
    if quantity > row["stock"]:
        raise Refusal("refused", f"only {row['stock']} of {product} in stock")
    at.state.update("product", product, {"stock": row["stock"] - quantity})
    order = {"product": product, "quantity": quantity, "total": round(row["price"] * quantity, 2), "date": at.today}
    made = at.state.insert("order", order | {"address": address or at.owner["address"], "status": "placed"}, "buy")
    return f"ordered {made['id']}: {quantity} x {row['name']}, {made['total']:.2f}"


def shop_cancel(at: Scene, id: str) -> str:
    row = _in_status(at, id, "placed", "cancelled")
    product = at.state.find("product", row["product"])
    if product:
        at.state.update("product", product["id"], {"stock": product["stock"] + row["quantity"]})
    at.state.update("order", id, {"status": "cancelled"}, "cancel")
    return f"cancelled {id}"


def shop_return(at: Scene, id: str, reason: str) -> str:
    needed(reason=reason)
    _in_status(at, id, "delivered", "returned")
    at.state.update("order", id, {"status": "returned", "reason": reason}, "return")
    return f"returned {id}"


def _in_status(at: Scene, id: str, wanted: str, doing: str) -> Row:
    row = at.state.get("order", id)
    if row["status"] != wanted:
        raise Refusal("refused", f"{id} is {row['status']}; only {wanted} orders can be {doing}")
    return row


def _product(row: Row) -> str:
    about = f" ({row['about'][:80]})" if row["about"] else ""
    return f"{row['id']} {row['name']} {row['price']:.2f}, {row['stock']} in stock{about}"


def _order(at: Scene, row: Row) -> str:
    product = at.state.find("product", row["product"])
    name = product["name"] if product else row["product"]
    return f"{row['id']} {row['date']} {row['status']} {row['quantity']} x {name} {row['total']:.2f}"
