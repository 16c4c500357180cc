"""Files: text by absolute path. They are rows, not files of the sandbox: a path can lead nowhere else."""

import posixpath

from . import addresses
from .answer import Refusal
from .scene import Scene, listed, matches, paged, same_version
from .state import Row

MOST_CHARS = 1_000_000


def files_list(at: Scene, folder: str, query: str) -> str:
    prefix = "" if folder.strip() in ("", "/") else f"{path_of(folder, 'folder')}/"
    rows = [row for row in at.state.rows("file") if row["id"].startswith(prefix)]
    rows = [row for row in rows if matches(query, row["id"], "" if row["broken"] else row["text"])]
    return listed((f"{row['id']} {len(row['text'])} chars" for row in sorted(rows, key=lambda r: r["id"])), 50)


def files_read(at: Scene, path: str, page: int) -> str:
    row = _file(at, path)
    if row["broken"]:
        raise Refusal("refused", f"{row['id']} is damaged and cannot be read")
    return paged(row["text"], page) or "(empty)"


def files_write(at: Scene, path: str, text: str, append: bool, version: int) -> str:
    name = path_of(path, "path")
    old = at.state.find("file", name)
    if old is None:
        if version:
            raise Refusal("conflict", f"{name} is not there any more")
        if any(row["id"].startswith(f"{name}/") for row in at.state.rows("file")):
            raise Refusal("refused", f"{name} is a folder")
        at.state.insert("file", {"id": name, "text": text})
        return f"made {name}"
    same_version(old, version)
    if append and old["broken"]:
        raise Refusal("refused", f"{name} is damaged")
    whole = old["text"] + text if append else text
    if len(whole) > MOST_CHARS:
        raise Refusal("refused", f"{name} would be longer than {MOST_CHARS} characters")
    at.state.update("file", name, {"text": whole, "broken": False})
    return f"{'added to' if append else 'replaced'} {name}"


def files_move(at: Scene, path: str, to: str) -> str:
    old, name = _file(at, path), path_of(to, "to")
    if name == old["id"]:
        return f"{name} is there already"
    if at.state.find("file", name):
        raise Refusal("refused", f"{name} exists")
    at.state.update("file", old["id"], {"id": name})
    for share in [row for row in at.state.rows("share") if row["path"] == old["id"]]:
        at.state.update("share", share["id"], {"path": name})
    return f"moved to {name}"


def files_delete(at: Scene, path: str) -> str:
    row = _file(at, path)
    at.state.delete("file", row["id"])
    return f"deleted {row['id']}"


def files_share(at: Scene, path: str, person: str) -> str:
    row, who = _file(at, path), addresses.plain(person, "person")
    if any((share["path"], share["person"]) == (row["id"], who) for share in at.state.rows("share")):
        return f"{who} has access already"
    at.state.insert("share", {"path": row["id"], "person": who}, "share")
    return f"shared {row['id']} with {who}"


def attached(at: Scene, paths: str) -> list[Row]:
    """Files as attachments, by comma-separated paths. Raises `Refusal` for one that is not there."""
    rows = [_file(at, path.strip()) for path in paths.split(",") if path.strip()]
    return [{"name": posixpath.basename(r["id"]), "text": r["text"], "broken": r["broken"]} for r in rows]


def path_of(text: str, field: str) -> str:
    """The one way to write a path. Raises `Refusal` for one that names no file."""
    path = posixpath.normpath(f"/{text.strip()}".replace("//", "/"))
    if path == "/" or len(path) > 200 or any(ord(letter) < 32 for letter in path):
        raise Refusal("bad_arguments", f"{field}: `{text[:40]}` is not a path, write /folder/name.txt")
    return path


def _file(at: Scene, path: str) -> Row:
    return at.state.get("file", path_of(path, "path"), "file")
