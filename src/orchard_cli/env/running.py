"""A command at the agent of a sandbox, as its client sees it: see `Execution`."""

import json
import os
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from ..errors import SandboxError
from .channel import Answer, Channel
from .execution import Event, ExecResult, Terminal

SLACK_S = 60.0  # what the agent may take beyond a command's own time before we call it silent
WAIT_S = 3600.0  # the longest single wait; a longer one is asked for again
GONE = ("infra.sandbox_lost", "infra.agent_lost", "infra.spawner_lost")  # nobody knows how a command ended
PATIENCE = 5  # lost connections in a row, without a new event, before the agent counts as lost


class Running:
    """Made by `start`."""

    def __init__(self, channel: Channel, key: str, id: str, timeout_s: float, taken: int | None = 0):
        self._channel, self.key, self.id, self._timeout_s = channel, key, id, timeout_s
        # bytes of input that the agent has; None: it knows better than we do
        self._path, self._taken = f"/v1/execs/{id}", taken
        self._feeding = threading.Lock()

    def events(self, after: int = 0) -> Iterator[Event]:
        failures = 0
        while True:
            try:
                with self._channel.stream("GET", f"{self._path}/events", query={"after": after}) as (_, pieces):
                    for line in _lines(pieces):
                        event = _event(json.loads(line))
                        if event is None:
                            continue
                        after, failures = event.seq, 0
                        yield event
                        if event.type == "exit":
                            return
                return  # it is over, and there is nothing after `after`
            except ConnectionError:
                failures += 1
                if failures > PATIENCE:
                    yield lost_event(after)
                    return
            except SandboxError as error:
                if error.fault.code not in GONE:
                    raise
                yield lost_event(after)
                return

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._stdin(bytes(view[:65536]))
            view = view[65536:]

    def close_stdin(self) -> None:
        self._stdin(b"", close=1)

    def _stdin(self, data: bytes, **query: object) -> None:
        """One at a time, each with its place: what is sent again, for an answer that was lost, is taken once."""
        with self._feeding:
            if self._taken is None:
                self._fed(b"")
            self._fed(data, **query)

    def _fed(self, data: bytes, **query: object) -> None:
        known = {} if self._taken is None else {"offset": self._taken}
        answer = self._channel.ask(
            "POST",
            f"{self._path}/stdin",
            data,
            query={**known, **query},
            wait_s=self._timeout_s + SLACK_S,
            again=True,
        )
        self._taken = answer.record()["taken"]

    def signal(self, number: int) -> None:
        self._channel.ask("POST", f"{self._path}/signal", query={"number": number})

    def resize(self, rows: int, cols: int) -> None:
        self._channel.ask("POST", f"{self._path}/resize", query={"rows": rows, "cols": cols}, again=True)

    def spooled(self, stream: Literal["out", "err"] = "out") -> Iterator[bytes]:
        yield from self._channel.download(f"{self._path}/output", query={"stream": stream})

    def cancel(self) -> None:
        self._channel.ask("POST", f"{self._path}/cancel", again=True)

    def wait(self, timeout_s: float | None = None) -> ExecResult:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            wait = WAIT_S if until is None else min(WAIT_S, max(0.0, until - time.monotonic()))
            try:
                answer = self._channel.ask("GET", self._path, query={"wait_s": wait}, wait_s=wait + SLACK_S, again=True)
            except SandboxError as error:
                if error.fault.code not in GONE:
                    raise
                return LOST
            if answer.status == 200:
                return result(answer)
            if until is not None and time.monotonic() >= until:
                raise SandboxError(
                    f"the command is still running after {timeout_s} s",
                    code="client.still_running",
                    attributable="client",
                    effect="unknown",
                )


def start(
    channel: Channel,
    command: str | Sequence[str],
    *,
    key: str = "",
    timeout_s: float = 60.0,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = b"",  # None: open, see `Execution.write`
    terminal: Terminal | None = None,
    **options: object,
) -> Running:
    """Start a command; under a `key` that has been used for the same one, find it again. `options` as on the wire."""
    key = key or os.urandom(12).hex()
    mode = "open" if stdin is None and terminal is None else None
    tty = None if terminal is None else {"rows": terminal.rows, "cols": terminal.cols}
    body = order(command, stdin or b"", timeout_s=timeout_s, cwd=cwd, env=env, input=mode, tty=tty, **options)
    headers = {"Idempotency-Key": key}
    answer = channel.ask("POST", "/v1/execs", body, headers=headers, again=True)
    return Running(channel, key, _record(answer)["id"], timeout_s)


def known(channel: Channel) -> tuple[Running, ...]:
    """All commands that the agent knows, the oldest first, by whomever they were started."""
    told = channel.ask("GET", "/v1/execs", again=True).record()["execs"]
    return tuple(Running(channel, each["key"], each["id"], WAIT_S, None) for each in told)  # it may run for long


def run(channel: Channel, body: bytes, timeout_s: float, key: str = "") -> ExecResult:
    """Start a command and wait for its end, in one request; nothing but its result is kept."""
    headers, query = {"Idempotency-Key": key or os.urandom(12).hex()}, {"wait_s": f"{timeout_s + SLACK_S:.3f}"}
    wait = timeout_s + 2 * SLACK_S
    return result(channel.ask("POST", "/v1/execs", body, query=query, headers=headers, wait_s=wait, again=True))


def order(command: str | Sequence[str], stdin: bytes = b"", **options: object) -> bytes:
    """The body of a request to start a command."""
    what = {"script": command} if isinstance(command, str) else {"argv": list(command)}
    if options.get("input"):
        options["stdin"] = options.pop("input")
    given = {name: value for name, value in options.items() if value is not None}
    text = json.dumps({**what, **given}, separators=(",", ":"))
    return text.encode() + (b"\n" + stdin if stdin else b"")


LOST = ExecResult(None, "agent_lost", b"", b"")


def lost_event(after: int) -> Event:
    """The last one of a command whose agent died: what it did until then, and whether it ended, is not known."""
    return Event(after + 1, "exit", more={"exit_code": None, "reason": "agent_lost", "signal": None})


def result(answer: Answer) -> ExecResult:
    record = _record(answer)
    if record["state"] != "done":
        raise SandboxError("the agent did not end the command in time", code="infra.agent_silent")
    data = memoryview(answer.body)[answer.body.index(b"\n") + 1 :]
    kept, seen = record["kept"], record["seen"]
    return ExecResult(
        exit_code=record["exit_code"],
        reason=record["reason"],
        signal=record["signal"],
        stdout=bytes(data[: kept[0]]),
        stderr=bytes(data[kept[0] :]),
        wall_s=record["wall_s"],
        stdout_bytes=seen[0],
        stderr_bytes=seen[1] if len(seen) > 1 else 0,
        left_running=tuple(record["left_running"]),
    )


def _record(answer: Answer) -> Any:
    return json.loads(answer.body.partition(b"\n")[0])


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = bytearray()
    for piece in pieces:
        rest += piece
        *whole, rest = rest.split(b"\n")
        yield from map(bytes, whole)


def _event(record: dict[str, Any]) -> Event | None:
    """None for a ping."""
    kind, number = record.pop("type"), record.pop("seq", 0)
    if kind == "ping":
        return None
    at, offset = record.pop("t", 0.0), record.pop("offset", 0)
    data = record.pop("text").encode() if "text" in record else b64decode(record.pop("b64", ""))
    return Event(number, kind, at, data, offset, record)
