"""What goes over the wire, for server and client alike. Requests refuse unknown fields."""

from base64 import b64decode, b64encode
from typing import Annotated, Any, Literal

import msgspec

from ...errors import Attributable, Effect, Retry
from ..network.log import Decision
from ..sandbox import ExecResult, Reason

Network = Literal["", "none", "allowlist", "open", "host"]
State = Literal["creating", "ready", "failed", "closing"]
# What lies outside of these is a mistake: less than nothing would end at once, and no machine lasts for ever.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=10 * 366 * 86_400)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Side = Annotated[int, msgspec.Meta(ge=0, le=65_535)]  # of a terminal


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Base of requests."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of replies; a later version may add fields, which an older client passes over."""


class BindBody(Body, frozen=True):
    source: str  # sha256:<hash of an uploaded tree>, or host:<absolute path> with proof of being on that host
    target: str


class ModelBody(Body, frozen=True):
    """A model that the sandbox may call: one that the operator offers, or any for a client on the same host."""

    base_url: str
    api_key_env: str = ""
    auth: Literal["bearer", "x-api-key", "api-key"] = "bearer"
    calls: tuple[str, ...] = ()  # empty: the usual ones
    headers: tuple[tuple[str, str], ...] = ()


class NetworkBody(Body, frozen=True):
    """Rules that hold from now on, within what the server allows."""

    network: Network
    allow: tuple[str, ...] = ()


class LimitsBody(Body, frozen=True):
    """Resource limits; 0 means no limit of our own."""

    memory_mb: Count = 1024
    pids: Count = 256
    cpus: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0.0
    disk_mb: Count = 1024


class Lifetime(Body, frozen=True):
    """How long a sandbox lives. A lease ends unless it is renewed; commands and file access renew it too.

    The server grants at most what `GET /v1/capabilities` says; `expires` of the sandbox is what it did grant.
    """

    lease_s: Seconds = 0.0  # 0: the server's default
    idle_timeout_s: Seconds = 0.0  # 0: none
    max_lifetime_s: Seconds = 0.0  # 0: the server's
    on_expire: Literal["delete", "snapshot"] = "delete"


class SandboxBody(Body, frozen=True):
    """A sandbox to make. `env` is handed to the sandbox and never stored."""

    id: str = ""  # a DNS label; made up if empty
    image: str = "host"
    workdir: str = "/workspace"
    tree: str = ""  # as `source` of a bind
    binds: tuple[BindBody, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    limits: LimitsBody | None = None  # None: the server's
    network: Network = ""  # as the server says
    allow: tuple[str, ...] = ()
    model: ModelBody | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    lifetime: Lifetime = Lifetime()
    from_snapshot: str = ""  # then only id, labels and lifetime may be given besides


class BatchBody(Body, frozen=True):
    """Many at once; each item ends on its own."""

    items: tuple[SandboxBody, ...]


class ForkBody(Body, frozen=True):
    n: int = 1
    processes: bool = False  # with all that runs, where the back end can (gvisor); open connections end
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    lifetime: Lifetime = Lifetime()


class SnapshotBody(Body, frozen=True):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    ttl_s: Seconds = 86_400.0


class LeaseBody(Body, frozen=True):
    """Renew many leases of a client in one call."""

    ids: tuple[str, ...] = ()
    lease_s: Seconds = 0.0


class ExecBody(Body, frozen=True):
    """One command: a bash script, or argv. `env`, `secrets` and `stdin` are never stored."""

    script: str | None = None
    script_b64: str | None = None  # where it is not text
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    stdin: str = ""
    stdin_b64: str = ""
    timeout_s: float = 60.0
    max_bytes: int = 1_048_576
    merge: bool = False
    login: bool = False  # with what profile scripts set; they run once in a sandbox
    open_stdin: bool = False  # fed by POST …/stdin
    rows: Side = 0  # with `cols`: a terminal of that size
    cols: Side = 0
    no_output_timeout_s: float = 0.0
    kill_grace_s: float = 0.5
    spool_bytes: int = 0  # of each stream: GET …/output, also what `max_bytes` cuts
    paced: bool = False  # without `wait`: it waits for who follows its events, so that none is dropped


class PatchBody(Body, frozen=True):
    diff: str


class KeyBody(Body, frozen=True):
    """An API key to make; the secret is in the answer, once."""

    tenant: str
    name: str = ""
    scopes: tuple[str, ...] = ("read", "use", "create")
    max_sandboxes: Count = 100
    max_execs: Count = 256
    ttl_s: Seconds = 0.0  # 0: no end


class TokenBody(Body, frozen=True):
    """A token to lend: for one sandbox, a few verbs (look, exec, files, ports, lease, network, fork), and a time."""

    sandbox: str
    verbs: tuple[str, ...] = ("look", "exec", "files")
    ttl_s: float = 600.0


class TokenView(Answer, frozen=True):
    token: str  # a Bearer, as a key is
    sandbox: str
    verbs: tuple[str, ...]
    expires: float  # seconds since 1970


class SandboxView(Answer, frozen=True):
    id: str
    tenant: str
    state: State
    image: str = "host"
    workdir: str = ""
    labels: dict[str, str] = {}
    network: str = "none"
    isolation: str = ""
    created: float = 0.0  # seconds since 1970
    expires: float = 0.0  # when the lease ends unless it is renewed
    fault: dict[str, Any] | None = None
    server: str = ""


class Page(Answer, frozen=True):
    items: tuple[SandboxView, ...]
    next: str = ""  # `after` of the next page; empty: that was all


class NetworkView(Answer, frozen=True):
    network: str
    allow: tuple[str, ...]
    changeable: bool  # there is a proxy that obeys other rules
    ended: int = 0  # connections that the change ended
    logged_as: str = ""  # its name in the file of `--network-log`
    decisions: tuple[Decision, ...] = ()  # the last ones, oldest first


class BatchItem(Answer, frozen=True):
    sandbox: SandboxView | None = None
    fault: dict[str, Any] | None = None


class BatchAnswer(Answer, frozen=True):
    items: tuple[BatchItem, ...]


class Output(Answer, frozen=True):
    """Text where it is valid UTF-8, else base64; `seen` counts what was cut too."""

    text: str | None = None
    b64: str | None = None
    seen: int = 0


class ResultView(Answer, frozen=True):
    exit_code: int | None
    reason: Reason
    stdout: Output
    stderr: Output
    signal: int | None = None
    wall_s: float = 0.0
    left_running: tuple[int, ...] = ()


class ExecView(Answer, frozen=True):
    id: str
    sandbox: str
    state: Literal["running", "done", "failed"]
    result: ResultView | None = None
    fault: dict[str, Any] | None = None


class Problem(Answer, frozen=True):
    """RFC 9457, with whose fault it was and whether trying again can help."""

    status: int
    title: str
    detail: str
    code: str
    attributable: Attributable = "unknown"
    effect: Effect = "unknown"
    retry: Retry = "never"
    type: str = "about:blank"
    domain: str = "sandbox"
    hint: str = ""
    request: str = ""


class Renewed(Answer, frozen=True):
    expires: dict[str, float]
    unknown: tuple[str, ...] = ()


class FileView(Answer, frozen=True):
    path: str
    bytes: int
    sha256: str


class Names(Answer, frozen=True):
    """`raw` instead, base64 of the names joined by NUL, where one of them is not text."""

    names: tuple[str, ...]
    raw: str = ""


class KeyView(Answer, frozen=True):
    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    max_sandboxes: int
    max_execs: int
    expires: float = 0.0
    secret: str = ""


def output(data: bytes, seen: int) -> Output:
    try:
        return Output(text=data.decode(), seen=seen)
    except UnicodeDecodeError:
        return Output(b64=b64encode(data).decode(), seen=seen)


def raw(part: Output) -> bytes:
    return part.text.encode() if part.text is not None else b64decode(part.b64 or "")


def result_view(result: ExecResult) -> ResultView:
    return ResultView(
        exit_code=result.exit_code,
        reason=result.reason,
        stdout=output(result.stdout, result.stdout_bytes),
        stderr=output(result.stderr, result.stderr_bytes),
        signal=result.signal,
        wall_s=result.wall_s,
        left_running=result.left_running,
    )


def brief(view: ExecView) -> ExecView:
    """Without what it said: of many at once that is too much."""
    if view.result is None:
        return view
    stdout, stderr = (Output(seen=part.seen) for part in (view.result.stdout, view.result.stderr))
    return msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, stdout=stdout, stderr=stderr))


def exec_result(view: ResultView) -> ExecResult:
    return ExecResult(
        exit_code=view.exit_code,
        reason=view.reason,
        stdout=raw(view.stdout),
        stderr=raw(view.stderr),
        signal=view.signal,
        wall_s=view.wall_s,
        stdout_bytes=view.stdout.seen,
        stderr_bytes=view.stderr.seen,
        left_running=view.left_running,
    )
