"""Faults as HTTP answers and back (reference: environments, d.8; RFC 9457)."""

import msgspec

from ...errors import Attributable, Effect, Retry, SandboxError
from .bodies import Problem

STATUS = {
    "client.bad_request": 400,
    "client.no_key": 401,
    "client.wrong_key": 403,
    "client.forbidden": 403,
    "client.token_expired": 401,
    "client.no_such_sandbox": 404,
    "client.no_such_exec": 404,
    "client.no_such_snapshot": 404,
    "client.no_such_tree": 404,
    "client.no_such_file": 404,
    "client.no_such_key": 404,
    "client.no_such_route": 404,
    "client.method": 405,
    "client.key_reused": 409,
    "client.key_unfinished": 409,
    "client.id_taken": 409,
    "client.not_ready": 409,
    "client.not_live": 409,
    "client.gone": 410,
    "infra.sandbox_lost": 410,
    "client.result_dropped": 410,
    "client.too_large": 413,
    "client.hash_mismatch": 422,
    "client.unsupported": 501,
    "client.other_server": 421,
    "capacity.quota": 429,
    "capacity.busy": 429,
    "capacity.closing": 503,
    "infra.disk_full": 507,
    "infra.store": 503,
    "patch_failed": 422,
}
TITLES = {
    400: "The request is wrong",
    401: "No API key, or one that is over",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    413: "Too large",
    421: "Another server holds it",
    422: "Cannot be done with this content",
    429: "Too much at once",
    500: "The service failed",
    501: "Not offered here",
    502: "The sandbox failed",
    503: "Not now",
    507: "No space left",
}


def refused(
    message: str, code: str, *, hint: str = "", effect: Effect = "none", retry: Retry | None = None
) -> SandboxError:
    """The client's fault, or lack of capacity, before anything was done."""
    client = code.startswith("client.")
    return SandboxError(
        message,
        code=code,
        attributable="client" if client else "infra",
        effect=effect,
        retry=retry or ("never" if client else "same"),
        hint=hint,
    )


def status_of(error: SandboxError) -> int:
    code = error.fault.code
    if code in STATUS:
        return STATUS[code]
    if code.startswith("client."):
        return 400
    if code.startswith("workload.") or error.fault.attributable == "model":
        return 422  # the workload's doing: an answer about it, no failure of the service
    return 429 if code.startswith("capacity.") else 502


def problem(error: SandboxError, request: str = "") -> Problem:
    fault, status = error.fault, status_of(error)
    return Problem(
        status=status,
        title=TITLES[status],
        detail=sayable(fault.message),
        code=fault.code,
        attributable=fault.attributable,
        effect=fault.effect,
        retry=fault.retry,
        domain=fault.domain,
        type=f"urn:orchard:env:{fault.code}",
        hint=sayable(error.hint),
        request=request,
    )


def error_of(data: bytes, status: int) -> SandboxError:
    """The server's problem as the error that a local sandbox would have raised."""
    try:
        found = msgspec.json.decode(data, type=Problem)
    except (msgspec.DecodeError, msgspec.ValidationError):
        said = " ".join(data[:200].decode(errors="replace").split())
        text = f"the environment's server answered {status}, and not as one of ours would: {said}"
        return SandboxError(text, code=f"infra.http_{status}", hint="is that its address? is something in between?")
    return of_view(msgspec.to_builtins(found) | {"message": found.detail})


def fault_view(error: SandboxError) -> dict[str, str]:
    said: dict[str, str] = msgspec.to_builtins(error.fault) | {"hint": error.hint}
    return {name: sayable(value) for name, value in said.items()}


def sayable(words: str) -> str:
    """As JSON can say it: a path may hold bytes that are no text."""
    return words.encode(errors="replace").decode()


def of_view(view: dict[str, str]) -> SandboxError:
    attributable: Attributable = view.get("attributable", "unknown")  # type: ignore[assignment]
    effect: Effect = view.get("effect", "unknown")  # type: ignore[assignment]
    retry: Retry = view.get("retry", "fresh")  # type: ignore[assignment]
    return SandboxError(
        view["message"],
        code=view["code"],
        attributable=attributable,
        effect=effect,
        retry=retry,
        hint=view.get("hint", ""),
    )
