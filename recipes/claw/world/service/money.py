"""Bank and expenses."""

from . import times
from .answer import Refusal
from .scene import Scene, listed, matches, needed
from .state import Row

CATEGORIES = ("travel", "meals", "office", "software", "other")
STATUSES = ("draft", "submitted", "approved")


def bank_accounts(at: Scene) -> str:
    rows = at.state.rows("account")
    return listed((f"{r['id']} {r['name']} {r['balance']:.2f} {r['currency']}" for r in rows), none="no accounts")


def bank_transactions(at: Scene, account: str, start: str, end: str, query: str, limit: int) -> str:
    if account:
        at.state.get("account", account)
    first, last = times.day(start, "start"), times.day(end, "end") or "9999"
    rows = [row for row in at.state.rows("payment") if row["account"] == account or not account]
    rows = [row for row in rows if first <= row["date"] <= last and matches(query, row["payee"], row["memo"])]
    rows.sort(key=lambda row: row["date"], reverse=True)
    return listed(map(_payment, rows), limit, "no transactions")


def bank_transfer(at: Scene, account: str, payee: str, amount: float, memo: str) -> str:
    needed(payee=payee)
    row, amount = at.state.get("account", account), positive(amount)
    if amount > row["balance"]:
        raise Refusal("refused", f"{account} holds only {row['balance']:.2f} {row['currency']}")
    at.state.update("account", account, {"balance": round(row["balance"] - amount, 2)})
    payment = {"account": account, "date": at.today, "amount": -amount, "payee": payee.strip(), "memo": memo}
    made = at.state.insert("payment", payment, "pay")
    return f"paid {amount:.2f} {row['currency']} to {payee.strip()} ({made['id']})"


def expenses_list(at: Scene, status: str, query: str) -> str:
    if status not in ("", *STATUSES):
        raise Refusal("bad_arguments", f"status must be one of {', '.join(STATUSES)}")
    rows = [row for row in at.state.rows("expense") if not status or row["status"] == status]
    rows = [row for row in rows if matches(query, row["merchant"], row["category"], row["notes"])]
    return listed(map(_expense, rows), none="no expenses")


def expenses_add(at: Scene, amount: float, category: str, merchant: str, date: str, notes: str) -> str:
    needed(merchant=merchant, date=date)
    if category not in CATEGORIES:
        raise Refusal("bad_arguments", f"category must be one of {', '.join(CATEGORIES)}")
    row = {"amount": positive(amount), "category": category, "merchant": merchant, "date": times.day(date, "date")}
    return f"added {at.state.insert('expense', row | {'notes': notes, 'status': 'draft'})['id']}"


def expenses_submit(at: Scene, id: str) -> str:
    row = at.state.get("expense", id)
    if row["status"] != "draft":
        raise Refusal("refused", f"{id} is {row['status']} already")
    at.state.update("expense", id, {"status": "submitted"}, "submit")
    return f"submitted {id}"


def positive(amount: float) -> float:
    """To the cent. Raises `Refusal` for nothing, less, or fractions of a cent."""
    if round(amount, 2) <= 0 or abs(amount - round(amount, 2)) > 1e-6:
        raise Refusal("bad_arguments", "amount must be above 0, with at most two decimals")
    return round(amount, 2)


def _payment(row: Row) -> str:
    memo = f" ({row['memo']})" if row["memo"] else ""
    return f"{row['id']} {row['date']} {row['amount']:.2f} {row['payee']}{memo}"


def _expense(row: Row) -> str:
    notes = f" ({row['notes']})" if row["notes"] else ""
    return f"{row['id']} {row['date']} {row['status']} {row['amount']:.2f} {row['category']} {row['merchant']}{notes}"
