"""The ASGI application: routes, who may use them, faults as problems, every request counted and written down."""

import secrets
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

import msgspec
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from ...errors import SandboxError
from .call import Call, Operation, json
from .compat import OPERATIONS as COMPATIBLE
from .keys import ANYONE, Principal
from .openapi import document
from .problem import problem, refused
from .routes.admin import OPERATIONS as ADMIN
from .routes.attach import attach
from .routes.execs import OPERATIONS as EXECS
from .routes.files import OPERATIONS as FILES
from .routes.network import OPERATIONS as NETWORK
from .routes.ports import tunnel
from .routes.sandboxes import OPERATIONS as SANDBOXES
from .routes.tar import OPERATIONS as TARS
from .service import Service
from .tokens import BASE, PREFIX, admit

OPERATIONS: tuple[Operation, ...] = (*EXECS, *FILES, *TARS, *SANDBOXES, *NETWORK, *ADMIN, *COMPATIBLE)
SILENT = ("/livez", "/readyz", "/metrics")  # asked every few seconds: not in the audit log
OURS = "/v1/"  # elsewhere clients of others may ask for what we do not know
Endpoint = Callable[[Request], Awaitable[Response]]


def application(service: Service) -> Starlette:
    described = msgspec.json.encode(document(OPERATIONS))

    async def openapi(call: Call) -> Response:
        return Response(described, media_type="application/json")

    about = Operation("GET", "/v1/openapi.json", "", openapi, "This document")
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, about):
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes: list[BaseRoute] = [
        Route(path, _endpoint(service, path, found), methods=METHODS) for path, found in by_path.items()
    ]
    routes.append(WebSocketRoute("/v1/sandboxes/{id}/ports/{port:int}", _websocket(service, "WS ports", tunnel)))
    routes.append(WebSocketRoute("/v1/sandboxes/{id}/execs/{exec}/attach", _websocket(service, "WS attach", attach)))
    return Starlette(routes=routes, exception_handlers={404: _no_route})


METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"]


async def _no_route(request: Request, error: Exception) -> Response:
    return _refusal(
        refused(f"there is no {request.url.path[:200]}", "client.no_such_route", hint="/v1/openapi.json"), ""
    )


def _endpoint(service: Service, path: str, found: dict[str, Operation]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        began, id = time.perf_counter(), secrets.token_hex(8)
        operation = found.get(request.method) or found.get("GET" if request.method == "HEAD" else "")
        call: Call | None = None
        try:
            if operation is None:
                raise refused(
                    f"{path} does not take {request.method}", "client.method", hint=f"it takes {', '.join(found)}"
                )
            who = await _who(service, request, operation.scope)
            call = Call(request, who, service, id)
            if operation.scope:
                who.require(operation.scope)
                if operation.path.startswith(OURS):
                    call.known(operation.query)
                admit(who, operation.path, operation.method, request.path_params.get("id", ""))
            response = await operation.call(call)
        except SandboxError as error:
            response = _refusal(error, id)
            service.metrics.fault(error.fault)
            if call:
                call.notes["fault"] = error.fault.code
        except Exception as error:  # noqa: BLE001 - the last boundary: a bug of ours is a problem document too
            response = _refusal(_bug(error), id)
        response.headers["X-Request-Id"] = id
        _account(service, request, operation, call, response, time.perf_counter() - began)
        return response

    return endpoint


def _websocket(
    service: Service, name: str, serve: Callable[[Service, Principal, WebSocket], Awaitable[None]]
) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(websocket: WebSocket) -> None:
        try:
            who = await _who(service, websocket, "use")
            who.require("use")
            path = f"{BASE}/ports" if serve is tunnel else f"{BASE}/execs"
            admit(who, path, "GET", websocket.path_params["id"])
        except SandboxError as error:
            service.metrics.fault(error.fault)
            await websocket.close()  # before it was accepted: the handshake is answered 403
            return
        service.audit.write(operation=name, tenant=who.tenant, key=who.key, sandbox=websocket.path_params["id"])
        await serve(service, who, websocket)

    return endpoint


async def _who(service: Service, request: HTTPConnection, scope: str) -> Principal:
    if not scope:
        return ANYONE
    if not service.settings.auth:
        _only_from_here(request)
        return ANYONE
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    secret = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    checks = service.tokens if secret.startswith(PREFIX) else service.keys
    return await checks.check(secret)


def _only_from_here(request: HTTPConnection) -> None:
    """Without keys, a web page in a browser on this machine must not reach us, nor a name that was bent to us."""
    host = request.headers.get("host", "").rpartition(":")[0].strip("[]") or request.headers.get("host", "")
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local or "origin" in request.headers:
        raise refused("without keys, only programs on this machine are served", "client.forbidden")


def _refusal(error: SandboxError, id: str) -> Response:
    said = problem(error, id)
    response = json(said, said.status)
    response.headers["Content-Type"] = "application/problem+json"
    if said.status == 429 or said.status == 503:
        response.headers["Retry-After"] = "1"
    if said.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _bug(error: Exception) -> SandboxError:
    return SandboxError(f"{type(error).__name__}: {error}", code="unknown.server_error", attributable="unknown")


def _account(
    service: Service,
    request: Request,
    operation: Operation | None,
    call: Call | None,
    response: Response,
    seconds: float,
) -> None:
    name = operation.name if operation else f"{request.method} other"
    service.metrics.seen(name, response.status_code, seconds)
    if operation and operation.path in SILENT:
        return
    service.audit.write(
        request=response.headers["X-Request-Id"],
        operation=name,
        status=response.status_code,
        tenant=call.who.tenant if call else "",
        key=call.who.key if call else "",
        peer=request.client.host if request.client else "",
        ms=round(seconds * 1e3, 2),
        **(call.notes if call else {}),
    )
