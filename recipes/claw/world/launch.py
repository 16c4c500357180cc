"""Start a world in a sandbox, and take what has become of it out again.

The world's process learns everything from its standard input. Host and process share a token that an agent in the
sandbox cannot learn: it never lies in a file or travels, each side only proves that it knows it.
"""

import compileall
import hashlib
import hmac
import json
import secrets
import sys
import zoneinfo
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orchard_cli.env.local.binds import python_binds
from orchard_cli.env.sandbox import Bind, ExecResult, Sandbox
from orchard_cli.errors import MissingExtra, SandboxError, installed

from .link import PORT, Link
from .service.rest import proof
from .service.world import World

SERVICE = Path(__file__).parent / "service"
HOME = "/opt/claw"
PYTHON = Path(sys.executable).resolve()
RUN = f"import sys; sys.path.insert(0, {HOME!r}); from service.main import main; main()"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECRET = secrets.token_bytes(32)


def binds(*, mcp: bool = False) -> tuple[Bind, ...]:
    """What a sandbox must see for a world to run in it: the services and this Python.

    mcp: also the packages of this Python, for `claw-mcp`. Raises `MissingExtra`.
    """
    _compile()
    if mcp and not installed("mcp"):
        raise MissingExtra("the MCP face of the world", "mcp", "claw")
    pythons = python_binds(Path(sys.executable)) if mcp else python_binds(PYTHON)
    return (Bind(SERVICE, f"{HOME}/service"), Bind(_zones(), f"{HOME}/zoneinfo"), *pythons)


def variables() -> dict[str, str]:
    """Environment with which the `claw` command works."""
    return {
        "PATH": f"{HOME}/service/bin:{PATH}:{PYTHON.parent}",
        "CLAW_PYTHON": str(PYTHON),
        "CLAW_MCP_PYTHON": sys.executable,
        "CLAW_HOME": HOME,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def start(sandbox: Sandbox, world: dict[str, Any]) -> None:
    """Run a checked world in the sandbox; returns when it answers. Raises `SandboxError`."""
    told = {"world": world, "token": _token(sandbox), "port": PORT, "tzpath": f"{HOME}/zoneinfo"}
    argv = [str(PYTHON), "-I", "-S", "-c", RUN]
    result = sandbox.exec(argv, stdin=json.dumps(told).encode(), cwd="/", timeout_s=60)
    if not result.ok:
        raise _not_started(result)


def export(sandbox: Sandbox, *, shell: bool = False) -> str:
    """Answer, state and audit log as canonical JSON. Raises `SandboxError`.

    shell: the agent had one. Then it is the agent who ended the services, should they be gone.
    """
    token, nonce = _token(sandbox), secrets.token_hex(16)
    owner = "model" if shell else "infra"
    with Link(sandbox, attributable=owner) as link:
        reply = link.ask("/_export", {}, {"X-Nonce": nonce, "X-Proof": proof(token, "export", nonce)})
    if not hmac.compare_digest(reply.proof.encode(), proof(token, "state", nonce, reply.text).encode()):
        raise SandboxError(
            "what answers in place of the services is something else", code="world_forged", attributable=owner
        )
    return reply.text


def initial(world: dict[str, Any]) -> str:
    """What `export` gives for a checked world in which nobody has done anything yet."""
    return World(world).export()


def _token(sandbox: Sandbox) -> str:
    return hmac.new(_SECRET, sandbox.id.encode(), hashlib.sha256).hexdigest()


@cache
def _compile() -> None:
    """Once, so that no sandbox has to; where the folder cannot be written to, each does it in memory."""
    compileall.compile_dir(SERVICE, quiet=2)


@cache
def _zones() -> Path:
    """Where this machine has its time zones: with the system, or in the `tzdata` package."""
    package = find_spec("tzdata")
    inside = [Path(place, "zoneinfo") for place in (package.submodule_search_locations or ())] if package else []
    places = [*map(Path, zoneinfo.TZPATH), *inside]
    found = next((place for place in places if (place / "Europe").is_dir()), None)
    if found is None:
        raise MissingExtra("the world's calendar", "tzdata", "claw")
    return found


def _not_started(result: ExecResult) -> SandboxError:
    said = result.stderr.decode(errors="replace").strip().split("\n")[-1] or result.reason
    unseen = "No module named 'service'" in said
    return SandboxError(
        f"the services did not start: {said[:500]}",
        code="world_not_started",
        attributable="client" if unseen else "infra",
        effect="none",
        retry="never" if unseen else "fresh",
        hint="they need sandboxes that show them folders of this machine: env.isolation=bwrap" if unseen else "",
    )
