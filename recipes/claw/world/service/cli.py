"""The command-line face: `claw mail list --folder inbox`, or with the required arguments in order: `claw mail read m1`.

Prints the answer; exit 0 if it was done, 1 if not. `claw`, `claw mail` and `claw mail list --help` explain themselves.
"""

import json
import os
import socket
import sys
from typing import Any

from .operations import OPERATIONS, Operation

SUBMITTED = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # first line of output with which a shell loop ends


def main(words: list[str]) -> int:
    operation, rest = found(words)
    if operation is None:
        print(_overview(words[0] if words else ""))
        return 0 if not rest else 1
    if "--help" in rest:
        print(usage(operation))
        return 0
    try:
        arguments = parsed(operation, rest)
    except ValueError as error:
        print(f"bad_arguments: {error}\n{usage(operation)}")
        return 1
    return _told(operation, arguments)


def parsed(operation: Operation, words: list[str]) -> dict[str, str]:
    """Arguments by name, all as text. Raises `ValueError`."""
    names = [argument.name for argument in operation.arguments]
    flags = {argument.name for argument in operation.arguments if argument.type == "boolean"}
    arguments: dict[str, str] = {}
    rest, places = list(words), list(names)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            if name not in names:
                raise ValueError(f"no option --{name}")
            if not equals:
                if name in flags and not (rest and rest[0] in ("true", "false")):
                    value = "true"
                elif rest:
                    value = rest.pop(0)
                else:
                    raise ValueError(f"--{name} needs a value")
        else:
            left = [name for name in places if name not in arguments]
            if not left:
                raise ValueError(f"one word too many: {word}")
            name, value = left[0], word
        if name in arguments:
            raise ValueError(f"{name} is given twice")
        arguments[name] = value
    return arguments


def usage(operation: Operation) -> str:
    """One line of use, one on what it does, and one for each argument."""
    parts = [a.name.upper() if a.required else f"[--{a.name}={a.type.upper()}]" for a in operation.arguments]
    lines = [" ".join(["claw", *operation.words, *parts]), f"  {operation.described()}"]
    return "\n".join([*lines, *(f"  {a.name}: {a.about}" for a in operation.arguments)])


def found(words: list[str]) -> tuple[Operation | None, list[str]]:
    """The operation that the words name, and the words after its name."""
    for count in (2, 1):
        operation = OPERATIONS.get("_".join(words[:count])) if len(words) >= count else None
        if operation and operation.words == tuple(words[:count]):
            return operation, words[count:]
    return None, words[1:]


def _overview(service: str) -> str:
    some = [o for o in OPERATIONS.values() if o.service == service] or list(OPERATIONS.values())
    return "\n".join(f"{' '.join(('claw', *o.words))}: {o.about}" for o in some)


def _told(operation: Operation, arguments: dict[str, str]) -> int:
    try:
        answer = ask(int(os.environ.get("CLAW_PORT", "8700")), f"/{'/'.join(operation.words)}", arguments, "cli")
    except (OSError, ValueError):
        print("unavailable: the services do not answer")
        return 1
    done = operation.name == "done" and answer["code"] == "ok"
    sys.stdout.write(f"{SUBMITTED if done else answer['text']}\n")
    return 0 if answer["code"] == "ok" else 1


def route(tool: str) -> str:
    """The path for any text as a tool's name; a name that no tool can have leads to none."""
    name = "".join(letter if letter.isascii() and letter.isalnum() or letter == "_" else "-" for letter in tool)
    return f"/{'-' if name.startswith('_') else ''}{name[:60] or '-'}"


def ask(port: int, path: str, arguments: dict[str, Any], face: str) -> Any:
    """One request to the REST face. Raises `OSError` or `ValueError` where nothing sensible answers."""
    body = json.dumps(arguments).encode()
    head = f"POST {path} HTTP/1.1\r\nX-Face: {face}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as stream:
            return json.loads(stream.read().partition(b"\r\n\r\n")[2])
