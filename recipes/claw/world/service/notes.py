"""Notes and todos."""

from . import times
from .answer import Refusal
from .scene import Scene, given, listed, matches, needed, same_version
from .state import Row

DONE = {"yes": True, "no": False}


def notes_list(at: Scene, query: str) -> str:
    rows = [row for row in at.state.rows("note") if matches(query, row["title"], row["text"])]
    return listed((f"{row['id']} {row['title'][:80]}" for row in rows), none="no notes")


def notes_read(at: Scene, id: str) -> str:
    row = at.state.get("note", id)
    return f"{row['title']} (version {row['version']})\n{row['text'][:10_000]}"


def notes_write(at: Scene, title: str, text: str, id: str, version: int) -> str:
    needed(title=title)
    if not id:
        return f"made {at.state.insert('note', {'title': title, 'text': text})['id']}"
    same_version(at.state.get("note", id), version)
    return f"replaced {at.state.update('note', id, {'title': title, 'text': text})['id']}"


def todo_list(at: Scene, query: str, status: str) -> str:
    if status not in ("", "open", "done"):
        raise Refusal("bad_arguments", "status must be open or done")
    rows = [row for row in at.state.rows("todo") if not status or row["done"] == (status == "done")]
    return listed((_line(row) for row in rows if matches(query, row["text"])), none="no todos")


def todo_add(at: Scene, text: str, due: str) -> str:
    needed(text=text)
    return f"added {at.state.insert('todo', {'text': text, 'due': times.day(due, 'due')})['id']}"


def todo_update(at: Scene, id: str, text: str, due: str, done: str) -> str:
    at.state.get("todo", id)
    if done not in ("", *DONE):
        raise Refusal("bad_arguments", "done must be yes or no")
    changes = given(text=text, due=times.day(due, "due"), done=DONE.get(done))
    return f"changed {_line(at.state.update('todo', id, changes))}"


def _line(row: Row) -> str:
    due = f" due {row['due']}" if row["due"] else ""
    return f"{row['id']} {'done' if row['done'] else 'open'}{due}: {row['text'][:120]}"
