"""A shop inside a sandbox: put it there, start it, read what its shopper did.

The state file and the set-up file are out of reach for a browser that may open no `file:` address.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.task import Task

from .grade import read_state

FOLDER = "/tmp/.shop"  # noqa: S108 - inside the sandbox
START = """
import pathlib, subprocess, sys
folder, python, seed, port = sys.argv[1:]
command = [python, "-I", f"{folder}/server.py", "--port", port, "--seed", seed]
command += ["--state", f"{folder}/state.json", "--setup", f"{folder}/setup.json"]
with open(f"{folder}/log", "wb") as log:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": log}
    started = subprocess.Popen(command, start_new_session=True, **pipes)
print(started.stdout.readline().decode().strip())
"""


# What a browser's site needs, as plain values: the shop serves many attempts, each begins with a reset.
HERE = Path(__file__).parent
HEADER = "X-Shop-Token"


def command(folder: str, token: str, state_file: str) -> tuple[str, ...]:
    """Starts the shop whose files lie in `folder`; `{python}` and `{port}` are left to be filled in."""
    options = ("--seed", "0", "--state", state_file, "--token", token)
    return ("{python}", "-I", f"{folder}/server.py", "--port", "{port}", *options)


def reset(task: Task, token: str) -> tuple[str, str, dict[str, str], str]:
    """(method, path, headers, body) of the request that makes the shop ready for `task`."""
    return "POST", "/__reset", {HEADER: token, "Content-Type": "application/json"}, json.dumps(task.data["shop"])


def look(token: str) -> tuple[str, str, dict[str, str], str]:
    """(method, path, headers, body) of the request that is answered with the state, for `read_state` and `grade`."""
    return "GET", "/__state", {HEADER: token}, ""


@dataclass(frozen=True)
class Shop:
    """A shop that runs. url: its first page, as a browser in the sandbox reaches it."""

    url: str
    port: int
    token: str  # opens /__state and /__reset; never shown to the agent
    state_file: str


def files() -> dict[str, bytes]:
    """Name below the shop's folder → content, of all that must be in the sandbox."""
    found = [HERE / "server.py", *sorted((HERE / "storefront").glob("*.py"))]
    return {str(path.relative_to(HERE)): path.read_bytes() for path in found}


def start(task: Task, sandbox: Sandbox, *, port: int = 0, python: str = "python3", folder: str = FOLDER) -> Shop:
    """Write the shop of `task` into the sandbox and start it; it listens when this returns. port 0: any free one.

    Raises `SandboxError` if it does not start.
    """
    for name, content in files().items():
        sandbox.write(f"{folder}/{name}", content)
    token, shop = secrets.token_urlsafe(24), task.data["shop"]
    sandbox.write(f"{folder}/setup.json", json.dumps({"token": token, "start": shop["start"]}).encode(), mode=0o600)
    done = sandbox.exec([python, "-I", "-c", START, folder, python, str(shop["seed"]), str(port)], timeout_s=20.0)
    said = done.stdout.decode(errors="replace").strip()
    if not said.isdigit():
        log = sandbox.exec(["tail", "-c", "500", f"{folder}/log"]).stdout.decode(errors="replace")
        raise SandboxError(f"the shop did not start: {log or done.stderr.decode(errors='replace')}", code="shop_failed")
    return Shop(f"http://127.0.0.1:{said}/", int(said), token, f"{folder}/state.json")


def state(sandbox: Sandbox, shop: Shop) -> dict[str, Any]:
    """What the shopper did. Raises `GradeError` if that cannot be read."""
    try:
        return read_state(sandbox.read(shop.state_file))
    except SandboxError as error:
        raise GradeError(f"the shop's state is gone: {error}", code="state_gone") from error
