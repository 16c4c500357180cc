"""Mail: folders, reading, sending. What is sent lies in folder `sent`."""

from . import addresses, files
from .answer import Refusal
from .scene import Scene, listed, matches, needed, paged
from .state import Row

FLAGS = {
    "read": {"unread": False},
    "unread": {"unread": True},
    "starred": {"starred": True},
    "plain": {"starred": False},
}


def mail_list(at: Scene, folder: str, query: str, unread: bool, limit: int) -> str:
    folder = folder.strip().lower() or "inbox"
    rows = [row for row in at.state.rows("mail") if row["folder"] == folder]
    if not rows:
        folders = sorted({row["folder"] for row in at.state.rows("mail")})
        return f"folder {folder[:40]} is empty; there are: {', '.join(folders) or 'none'}"
    rows = [row for row in rows if row["unread"] or not unread]
    rows = [row for row in rows if matches(query, row["sender"], *row["recipients"], row["subject"], row["body"])]
    rows.sort(key=lambda row: row["at"], reverse=True)
    return listed((_line(row) for row in rows), limit, "no mail matches")


def mail_read(at: Scene, id: str, page: int) -> str:
    row = at.state.get("mail", id)
    head = [f"from: {row['sender']}", f"to: {', '.join(row['recipients'])}"]
    head += [f"cc: {', '.join(row['cc'])}"] if row["cc"] else []
    head += [f"at: {row['at'].replace('T', ' ')}", f"subject: {row['subject']}"]
    names = ", ".join(part["name"] for part in row["attachments"])
    head += [f"attachments: {names}"] if names else []
    return "\n".join([*(" ".join(line.split()) for line in head), "", paged(row["body"], page)])


def mail_send(at: Scene, to: str, subject: str, body: str, cc: str, attach: str) -> str:
    needed(body=body)
    row = {"recipients": addresses.several(to, "to", needed=True), "subject": subject, "body": body}
    return _sent(at, row | {"cc": addresses.several(cc, "cc"), "attachments": files.attached(at, attach)})


def mail_reply(at: Scene, id: str, body: str, cc: str, attach: str) -> str:
    needed(body=body)
    old = at.state.get("mail", id)
    row = {"recipients": [addresses.plain(old["sender"], "sender")], "subject": _again("Re", old), "body": body}
    extra = {"cc": addresses.several(cc, "cc"), "attachments": files.attached(at, attach), "reply_to": old["id"]}
    return _sent(at, row | extra)


def mail_forward(at: Scene, id: str, to: str, body: str) -> str:
    old = at.state.get("mail", id)
    quoted = f"{body}\n\n-- from {old['sender']}:\n{old['body']}".lstrip()
    row = {"recipients": addresses.several(to, "to", needed=True), "subject": _again("Fwd", old), "body": quoted}
    return _sent(at, row | {"attachments": old["attachments"], "reply_to": old["id"]})


def mail_move(at: Scene, id: str, folder: str) -> str:
    folder = folder.strip().lower()
    needed(folder=folder)
    if folder == "sent" or len(folder) > 40:
        raise Refusal("refused", f"mails cannot be moved to {folder[:40]}")
    at.state.update("mail", id, {"folder": folder})
    return f"moved {id} to {folder}"


def mail_mark(at: Scene, id: str, flag: str) -> str:
    if flag not in FLAGS:
        raise Refusal("bad_arguments", f"flag must be one of {', '.join(FLAGS)}")
    at.state.update("mail", id, FLAGS[flag])
    return f"marked {id} {flag}"


def mail_delete(at: Scene, id: str) -> str:
    at.state.delete("mail", id)
    return f"deleted {id}"


def mail_attachment(at: Scene, id: str, name: str, path: str) -> str:
    row = at.state.get("mail", id)
    found = next((part for part in row["attachments"] if part["name"] == name), None)
    if found is None:
        names = ", ".join(part["name"] for part in row["attachments"]) or "none"
        raise Refusal("not_found", f"{id} has no attachment {name[:60]}; it has: {names}")
    if found["broken"]:
        raise Refusal("refused", f"attachment {name} is damaged and cannot be read")
    if not path:
        return paged(found["text"], 1)
    return files.files_write(at, path, found["text"], False, 0)


def _sent(at: Scene, row: Row) -> str:
    row = {"folder": "sent", "sender": at.owner["email"], "at": at.clock[:16], "unread": False} | row
    sent = at.state.insert("mail", row, "send")
    return f"sent {sent['id']} to {', '.join(sent['recipients'])}"


def _again(word: str, old: Row) -> str:
    subject = old["subject"]
    return subject if subject.lower().startswith(f"{word.lower()}:") else f"{word}: {subject}"


def _line(row: Row) -> str:
    marks = " unread" * row["unread"] + " starred" * row["starred"]
    who = f"to {', '.join(row['recipients'])}" if row["folder"] == "sent" else row["sender"]
    files = f" [{len(row['attachments'])} attached]" if row["attachments"] else ""
    return f"{row['id']}{marks} {row['at'][5:].replace('T', ' ')} {who}: {row['subject'][:80]}{files}"
