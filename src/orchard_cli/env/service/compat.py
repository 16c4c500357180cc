"""The routes of the published reference API, so that clients written for it work here: X-API-Key, /sandboxes, /jobs.

Semantics are ours where theirs are defects: a background child does not hold the call, 124 is only what a command
said itself, a list is an argv, a missing directory is an error (reference: orchard-paper 1.2, environments (c)).
"""

import shlex
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from .bodies import Body, ExecBody, ExecView, Lifetime, LimitsBody, Output, SandboxBody, raw
from .call import Call, Operation, json
from .command import Execution
from .execs import new_id
from .live import Live
from .problem import refused, sayable
from .routes.execs import counted
from .routes.sandboxes import delete
from .specs import new_id as new_sandbox_id

LEASE_S = 7200.0  # theirs: two hours from creation
STATES = {"running": "running", "done": "succeeded", "failed": "failed"}
UNITS = {"m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class OldSandbox(msgspec.Struct, frozen=True):
    """Fields that we do not know are passed over, as theirs does."""

    image: str = "host"
    block_network: bool = True
    sandbox_id: str | None = None
    cpu: str = ""
    memory: str = ""
    timeout: float = 3600.0


class OldExec(msgspec.Struct, frozen=True):
    command: str | tuple[str, ...]
    timeout_seconds: float = 300.0
    cwd: str | None = None
    env: dict[str, str] | None = None
    login_shell: bool = False
    wait: bool = True


class OldPatch(msgspec.Struct, frozen=True):
    patch: str
    timeout_seconds: float = 30.0


class OldFile(Body, frozen=True):
    path: str
    content: str  # base64


async def root(call: Call) -> Response:
    return json({"status": "healthy", "service": "orchard env"})


async def create(call: Call) -> Response:
    body, text = await call.read(OldSandbox)
    name = body.sandbox_id or new_sandbox_id()
    wanted = SandboxBody(
        id=name,
        image=body.image,
        limits=_limits(body),
        network="none" if body.block_network else "open",
        lifetime=Lifetime(lease_s=LEASE_S),
    )

    async def act() -> dict[str, Any]:
        await call.service.fleet.create(wanted, call.who, "", name)
        return {"id": name}

    answer = await call.once(text, act, {"id": name})
    return json(_sandbox(call.service.fleet.get(answer["id"], call.who)), 201)


def _limits(body: OldSandbox) -> LimitsBody | None:
    if not body.cpu and not body.memory:
        return None
    return LimitsBody(memory_mb=int(quantity(body.memory or "1Gi") / 2**20), cpus=quantity(body.cpu or "0"))


def quantity(text: str) -> float:
    """A Kubernetes quantity: `4`, `500m`, `16Gi`. Raises `client.bad_request`."""
    found = -1.0
    with suppress(ValueError):
        unit = next((unit for unit in UNITS if text.endswith(unit)), "")
        found = float(text.removesuffix(unit)) * UNITS.get(unit, 1)
    if not 0 <= found < 2**60:
        raise refused(f"`{text[:80]}` is not a quantity such as 4, 500m or 16Gi", "client.bad_request")
    return found


def _sandbox(live: Live) -> dict[str, Any]:
    state = {"creating": "pending", "closing": "terminating"}.get(live.state, live.state)
    return {
        "sandbox_id": live.id,
        "status": state,
        "ready": live.state == "ready",
        "image": live.image,
        "block_network": live.network == "none",
        "created_at": datetime.fromtimestamp(live.created, UTC).isoformat(),
        "error": str(live.fault) if live.fault else None,
    }


async def look(call: Call) -> Response:
    return json(_sandbox(await call.service.fleet.locate(call.path("id"), call.who)))


async def wait(call: Call) -> Response:
    import asyncio

    live = await call.service.fleet.locate(call.path("id"), call.who)
    try:
        await asyncio.wait_for(live.settled.wait(), call.number("timeout", 60, 3600))
    except TimeoutError:
        return json({"detail": "not ready in that time"}, 408)
    return json(_sandbox(live))


async def heartbeat(call: Call) -> Response:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    live.renew()
    return json({"sandbox_id": live.id, "status": "ok"})


async def run(call: Call) -> Response:
    body, text = await call.read(OldExec)
    live = await call.service.fleet.locate(call.path("id"), call.who)
    _, execs = live.open_box()
    live.touch()
    id = f"{live.id}.{new_id()}"  # their job ids stand alone: ours says where to look
    command = body.command if isinstance(body.command, str) else shlex.join(body.command)
    argv = None if isinstance(body.command, str) or body.login_shell else body.command
    wanted = ExecBody(
        script=None if argv else command,
        argv=argv,
        cwd=body.cwd,
        env=body.env or {},
        timeout_s=body.timeout_seconds,
        login=body.login_shell,
    )

    async def act() -> dict[str, Any]:
        counted(call, execs, wanted, id)
        return {"exec": id}

    answer = await call.once(text, act, {"exec": id})
    execution = execs.find(answer["exec"])
    view = await execution.wait(body.timeout_seconds + 30 if body.wait else 0)
    return json(_job(view))


def _job(view: ExecView) -> dict[str, Any]:
    result, fault = view.result, view.fault
    text = ("", "") if result is None else (_text(result.stdout), _text(result.stderr))
    code = None if result is None else result.exit_code if result.exit_code is not None else 128 + (result.signal or 0)
    if result and result.reason == "timeout":
        code = 124
    return {
        "job_id": view.id,
        "sandbox_id": view.sandbox,
        "status": STATES[view.state],
        "stdout": text[0],
        "stderr": text[1],
        "exit_code": code,
        "reason": result.reason if result else None,
        "error": fault["message"] if fault else None,
        "fault": fault,
    }


def _text(part: Output) -> str:
    return raw(part).decode(errors="replace")


def _execution(call: Call) -> Execution:
    id = call.path("job")
    live = call.service.fleet.get(id.partition(".")[0], call.who)
    _, execs = live.open_box()
    return execs.find(id)


async def job(call: Call) -> Response:
    return json(_job(_execution(call).view()))


async def job_wait(call: Call) -> Response:
    return json(_job(await _execution(call).wait(call.number("timeout", 30, 3600))))


async def apply_patch(call: Call) -> Response:
    body, _ = await call.read(OldPatch)
    box, _ = (await call.service.fleet.locate(call.path("id"), call.who)).open_box()
    await call.service.fleet.chore(lambda: box.patch(body.patch))
    return json({"success": True})


async def write_file(call: Call) -> Response:
    body, _ = await call.read(OldFile)
    box, _ = (await call.service.fleet.locate(call.path("id"), call.who)).open_box()
    try:
        data = b64decode(body.content, validate=True)
    except ValueError:
        raise refused("`content` is not base64", "client.bad_request") from None
    await call.service.fleet.chore(lambda: box.write(body.path, data))
    return json({"path": body.path, "size": len(data)})


async def read_file(call: Call) -> Response:
    box, _ = (await call.service.fleet.locate(call.path("id"), call.who)).open_box()
    data = await call.service.fleet.chore(lambda: box.read(call.query("path")))
    return json({"path": sayable(call.query("path")), "content": b64encode(data).decode(), "size": len(data)})


async def list_files(call: Call) -> Response:
    box, _ = (await call.service.fleet.locate(call.path("id"), call.who)).open_box()
    found = await call.service.fleet.chore(lambda: box.list(call.query("path", ".")))
    files = [{"name": sayable(name.rstrip("/")), "is_dir": name.endswith("/")} for name in found]
    return json({"path": sayable(call.query("path", ".")), "files": files})


ONE = "/sandboxes/{id}"
OPERATIONS = (
    Operation("GET", "/", "", root, "Compatible: health"),
    Operation("GET", "/health", "", root, "Compatible: health"),
    Operation("POST", "/sandboxes", "create", create, "Compatible: make one"),
    Operation("GET", ONE, "read", look, "Compatible: look at one"),
    Operation("DELETE", ONE, "create", delete, "Compatible: delete one"),
    Operation("GET", f"{ONE}/wait", "read", wait, "Compatible: wait for readiness"),
    Operation("POST", f"{ONE}/heartbeat", "use", heartbeat, "Compatible: renew the lease"),
    Operation("POST", f"{ONE}/exec", "use", run, "Compatible: run a command"),
    Operation("POST", f"{ONE}/apply_patch", "use", apply_patch, "Compatible: apply a diff"),
    Operation("POST", f"{ONE}/files", "use", write_file, "Compatible: write a file"),
    Operation("GET", f"{ONE}/files", "use", read_file, "Compatible: read a file", query=("path",)),
    Operation("GET", f"{ONE}/files/list", "use", list_files, "Compatible: list a directory", query=("path",)),
    Operation("GET", "/jobs/{job}", "read", job, "Compatible: a command"),
    Operation("GET", "/jobs/{job}/wait", "read", job_wait, "Compatible: wait for a command"),
)
