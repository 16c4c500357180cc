"""A browser in words, for tests: real HTTP, real HTML, no pictures. Acts like the tools that an agent has."""

import http.client
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

from orchard_cli.trajectory import ToolCall

VOID = {"input", "meta", "link", "br"}


@dataclass
class Thing:
    role: str
    name: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    form: int = -1
    value: str = ""
    checked: bool = False


class Reader(HTMLParser):
    """Links, buttons, fields and forms of a page, with their names, and all of its text."""

    def __init__(self) -> None:
        super().__init__()
        self.things: list[Thing] = []
        self.forms: list[dict[str, str]] = []
        self.hidden: list[tuple[int, str, str]] = []
        self.labels: dict[str, str] = {}
        self.title = ""
        self.text: list[str] = []
        self.form = -1
        self.stack: list[str] = []
        self.named: list[Thing] = []
        self.label: list[str] = []  # the id that an open label is for

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {k: v or "" for k, v in given}
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "form":
            self.form = len(self.forms)
            self.forms.append(attributes)
        elif tag in ("a", "button"):
            thing = Thing({"a": "link"}.get(tag, tag), attributes.get("aria-label", ""), attributes, self.form)
            self.things.append(thing)
            self.named.append(thing)
        elif tag == "label":
            self.label.append(attributes.get("for", ""))
        elif tag == "input":
            self.field(attributes)

    def field(self, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "text")
        if kind == "hidden":
            self.hidden.append((self.form, attributes["name"], attributes["value"]))
            return
        role = "radio" if kind == "radio" else "searchbox" if kind == "search" else "textbox"
        name = self.labels.get(attributes.get("id", ""), "")
        thing = Thing(role, name, attributes, self.form, attributes.get("value", ""), "checked" in attributes)
        self.things.append(thing)
        if role == "radio":
            self.named.append(thing)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag, f"</{tag}> closes nothing"
        if tag == "form":
            self.form = -1
        elif tag in ("a", "button", "label") and self.named:
            self.named.pop()
        if tag == "label":
            self.label.pop()

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] == "title":
            self.title = data
        elif self.stack and self.stack[-1] != "style":
            self.text.append(data.strip())
        if self.named and not self.named[-1].attributes.get("aria-label"):
            self.named[-1].name += data
        elif self.label and self.label[-1]:
            self.labels[self.label[-1]] = data


class WordBrowser:
    """Fetches, follows redirects, fills in and sends forms; `observe` says what there is, one thing a line."""

    def __init__(self, url: str):
        self.url = url
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        self.answer = ""
        self.done = False
        self.status = 0
        self.visit(url)

    def visit(self, url: str, form: dict[str, str] | None = None) -> None:
        for _ in range(5):
            parts = urlsplit(url)
            where = parts.path + (f"?{parts.query}" if parts.query else "")
            if form is None:
                self.connection.request("GET", where)
            else:
                kind = {"Content-Type": "application/x-www-form-urlencoded"}
                self.connection.request("POST", where, urlencode(form), kind)
            reply = self.connection.getresponse()
            self.html = reply.read().decode()
            self.status, self.url = reply.status, url
            if reply.status != 303:
                break
            url, form = urljoin(url, reply.headers["Location"]), None
        self.page = Reader()
        self.page.feed(self.html)
        self.page.close()
        assert not self.page.stack, f"never closed: {self.page.stack}"

    def observe(self) -> str:
        lines = [f"Page: {self.page.title}", f"URL: {self.url}"]
        for at, thing in enumerate(self.page.things):
            value = f' value="{thing.value}"' if thing.role.endswith("box") else ""
            lines.append(f'[{at}] {thing.role} "{thing.name.strip()}"{value}')
        return "\n".join(lines)

    def call(self, call: ToolCall) -> None:
        if call.name == "done":
            self.answer, self.done = call.arguments["response"], True
        elif call.name == "goto_url":
            self.visit(call.arguments["url"])
        elif call.name == "write":
            self.page.things[call.arguments["id"]].value = call.arguments["message"]
        else:
            self.click(self.page.things[call.arguments["id"]])

    def click(self, thing: Thing) -> None:
        if thing.role == "link":
            self.visit(urljoin(self.url, thing.attributes["href"]))
        elif thing.role == "radio":
            for other in self.page.things:
                other.checked = other is thing if other.role == "radio" else other.checked
        else:
            self.send(thing.form)

    def send(self, form: int) -> None:
        where = self.page.forms[form]
        fields = {name: value for at, name, value in self.page.hidden if at == form}
        for thing in self.page.things:
            if thing.form == form and thing.role != "button" and (thing.role != "radio" or thing.checked):
                fields[thing.attributes["name"]] = thing.value
        url = urljoin(self.url, where["action"])
        if where.get("method") == "post":
            self.visit(url, fields)
        else:
            self.visit(f"{url}?{urlencode(fields)}")

    def named(self, role: str, name: str) -> Thing:
        return next(t for t in self.page.things if t.role == role and t.name.strip() == name)

    def close(self) -> None:
        self.connection.close()
