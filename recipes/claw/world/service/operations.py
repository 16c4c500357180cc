"""The table of operations: everything that can be done in the world, and the only place that says so.

Native tools, REST routes, the `claw` command, the MCP server and the SKILL.md files are all made from `TABLE`. An
argument's name means the same thing wherever it occurs; `ARGUMENTS` says what. Standard library only: this file
also runs inside the sandbox.
"""

from typing import Any, NamedTuple


class Argument(NamedTuple):
    name: str
    type: str  # JSON type: string | integer | number | boolean
    about: str
    required: bool

    @property
    def default(self) -> Any:
        return {"string": "", "integer": 0, "number": 0.0, "boolean": False}[self.type]


class Operation(NamedTuple):
    """`service_verb`. `writes`: it may change the state. `irreversible`: nothing takes it back."""

    service: str
    verb: str
    about: str
    arguments: tuple[Argument, ...]
    writes: bool = False
    irreversible: bool = False

    @property
    def name(self) -> str:
        return "_".join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """Its name as words of a command or parts of a path."""
        return (self.service, self.verb) if self.verb else (self.service,)

    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {a.name: {"type": a.type, "description": a.about} for a in self.arguments},
            "required": [a.name for a in self.arguments if a.required],
            "additionalProperties": False,
        }

    def tool(self) -> dict[str, Any]:
        """A function tool, as chat endpoints take them."""
        function = {"name": self.name, "description": self.described(), "parameters": self.schema()}
        return {"type": "function", "function": function}

    def described(self) -> str:
        return f"{self.about} Cannot be undone." if self.irreversible else self.about


ARGUMENTS = {
    "about": ("string", "What you want to know or have confirmed, in one sentence."),
    "account": ("string", "Account id."),
    "address": ("string", "Where to deliver; empty: the owner's address."),
    "amount": ("number", "Money, two decimals, above 0."),
    "answer": ("string", "The final answer to the user."),
    "append": ("boolean", "Add to the end instead of replacing."),
    "attach": ("string", "Paths of files to attach, comma-separated."),
    "attendees": ("string", "Mail addresses, comma-separated."),
    "body": ("string", "Text of the mail."),
    "category": ("string", "One word: travel, meals, office, software, other."),
    "cc": ("string", "Mail addresses, comma-separated."),
    "company": ("string", "Company."),
    "date": ("string", "A day, YYYY-MM-DD."),
    "done": ("string", "yes or no."),
    "due": ("string", "A day, YYYY-MM-DD."),
    "email": ("string", "Mail address."),
    "end": ("string", "When it ends: YYYY-MM-DD, or YYYY-MM-DDTHH:MM with an optional offset."),
    "flag": ("string", "read, unread, starred or plain."),
    "folder": ("string", "Folder name."),
    "id": ("string", "Id, as a list shows it."),
    "limit": ("integer", "At most so many lines; 0: 20."),
    "location": ("string", "Place."),
    "memo": ("string", "Text on the statement."),
    "merchant": ("string", "Who was paid."),
    "minutes": ("integer", "Length in minutes."),
    "name": ("string", "Name."),
    "notes": ("string", "Free text."),
    "page": ("integer", "Which page of a long text; 0: the first."),
    "path": ("string", "Absolute path, such as /reports/q1.txt."),
    "payee": ("string", "Who gets the money."),
    "person": ("string", "Mail address of the person."),
    "phone": ("string", "Phone number."),
    "product": ("string", "Product id."),
    "quantity": ("integer", "How many; 0: one."),
    "query": ("string", "Words that must all occur."),
    "reason": ("string", "Why."),
    "start": ("string", "When it starts: YYYY-MM-DD, or YYYY-MM-DDTHH:MM with an optional offset."),
    "status": ("string", "Only this status; empty: all."),
    "subject": ("string", "Subject line."),
    "text": ("string", "The text."),
    "title": ("string", "Title."),
    "to": ("string", "Mail addresses, comma-separated."),
    "tz": ("string", "IANA time zone of times without offset; empty: the owner's."),
    "unread": ("boolean", "Only unread ones."),
    "url": ("string", "Address of a page, as a search shows it."),
    "version": ("integer", "The version you read; refused if it has changed since. 0: no check."),
}

READ, WRITE, FINAL = "read", "write", "final"  # final: writes, and cannot be undone
TABLE = (
    ("mail_list", READ, "folder? query? unread? limit?", "List mails, newest first; folder inbox if empty."),
    ("mail_read", READ, "id page?", "Read one mail."),
    ("mail_send", FINAL, "to subject body cc? attach?", "Send a mail."),
    ("mail_reply", FINAL, "id body cc? attach?", "Answer the sender of a mail."),
    ("mail_forward", FINAL, "id to body?", "Forward a mail with its attachments."),
    ("mail_move", WRITE, "id folder", "Move a mail to a folder, such as archive or trash."),
    ("mail_mark", WRITE, "id flag", "Mark a mail."),
    ("mail_delete", FINAL, "id", "Delete a mail for good."),
    ("mail_attachment", WRITE, "id name path?", "Read a mail's attachment, or save it under path."),
    (
        "calendar_list",
        READ,
        "start? end? query?",
        "List events from start to end; from today on if empty.",
    ),
    ("calendar_get", READ, "id", "Show one event with its notes and version."),
    ("calendar_free", READ, "start end minutes tz?", "Free slots of that length in a stretch of time."),
    ("calendar_create", WRITE, "title start end tz? attendees? location? notes?", "Make an event."),
    (
        "calendar_update",
        WRITE,
        "id title? start? end? tz? attendees? location? notes? version?",
        "Change an event; empty stays.",
    ),
    ("calendar_delete", FINAL, "id", "Cancel an event; its attendees are told."),
    ("contacts_search", READ, "query?", "Find people; all if empty."),
    ("contacts_add", WRITE, "name email phone? company? notes?", "Add a person."),
    (
        "contacts_update",
        WRITE,
        "id name? email? phone? company? notes? version?",
        "Change a person; empty stays.",
    ),
    ("contacts_delete", FINAL, "id", "Delete a person."),
    ("files_list", READ, "folder? query?", "List files below a folder, by words in path or text."),
    ("files_read", READ, "path page?", "Read a text file."),
    ("files_write", WRITE, "path text append? version?", "Write a text file."),
    ("files_move", WRITE, "path to", "Move or rename a file; `to` is a path."),
    ("files_delete", FINAL, "path", "Delete a file."),
    ("files_share", FINAL, "path person", "Give a person access to a file."),
    ("notes_list", READ, "query?", "List notes."),
    ("notes_read", READ, "id", "Read a note."),
    ("notes_write", WRITE, "title text id? version?", "Make a note, or replace the one with that id."),
    ("todo_list", READ, "query? status?", "List todos; status open or done."),
    ("todo_add", WRITE, "text due?", "Add a todo."),
    ("todo_update", WRITE, "id text? due? done?", "Change a todo; empty stays."),
    ("bank_accounts", READ, "", "List accounts with balances."),
    ("bank_transactions", READ, "account? start? end? query? limit?", "List transactions, newest first."),
    ("bank_transfer", FINAL, "account payee amount memo?", "Pay money from an account."),
    ("expenses_list", READ, "status? query?", "List expenses: draft, submitted or approved."),
    ("expenses_add", WRITE, "amount category merchant date notes?", "Record an expense as a draft."),
    ("expenses_submit", FINAL, "id", "Hand in a draft expense."),
    ("shop_search", READ, "query?", "Find products with prices and stock."),
    ("shop_orders", READ, "status? query?", "List orders."),
    ("shop_buy", FINAL, "product quantity? address?", "Order a product."),
    ("shop_cancel", FINAL, "id", "Cancel an order that was not shipped."),
    ("shop_return", FINAL, "id reason", "Send back a delivered order."),
    ("web_search", READ, "query limit?", "Search the web."),
    ("web_open", READ, "url page?", "Read a web page."),
    ("clock_now", READ, "", "The date and time."),
    ("user_ask", WRITE, "about", "Ask the user a question or for a confirmation."),
    ("done", WRITE, "answer", "End the task with an answer to the user."),
)


def _argument(word: str, operation: str) -> Argument:
    name = word.rstrip("?")
    kind, about = ARGUMENTS[name]
    if (operation, name) == ("files_move", "to"):
        about = "The new path."
    return Argument(name, kind, about, required=not word.endswith("?"))


def _operation(name: str, effect: str, words: str, about: str) -> Operation:
    service, _, verb = name.partition("_")
    arguments = tuple(_argument(word, name) for word in words.split())
    return Operation(service, verb, about, arguments, effect != READ, effect == FINAL)


OPERATIONS: dict[str, Operation] = {row[0]: _operation(*row) for row in TABLE}
SERVICES = tuple(dict.fromkeys(operation.service for operation in OPERATIONS.values()))


def chosen(names: list[str] | tuple[str, ...]) -> dict[str, Operation]:
    """Operations by service or operation name; all if there are none. `clock`, `user` and `done` are always there."""
    if not names:
        return OPERATIONS
    always = ("clock", "user", "done")
    return {n: o for n, o in OPERATIONS.items() if n in names or o.service in names or o.service in always}
