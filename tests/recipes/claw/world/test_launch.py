"""A world in a real sandbox: it runs, answers, is read out, and an agent with a shell can neither read nor forge it."""

import json
import socket
import threading

import pytest
from orchard_cli.recipes.claw.world import launch
from orchard_cli.recipes.claw.world.link import PORT, Link

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import SandboxError

from .conftest import Open
from .made import small

SERVICES = (
    "for p in /proc/[0-9]*; do if tr '\\0' ' ' <$p/cmdline | grep -q service.main; then echo ${p#/proc/}; fi; done"
)


def test_a_world_that_nobody_touched_is_the_initial_one(start: Open) -> None:
    assert launch.export(start()) == launch.initial(small())


def test_it_survives_the_command_that_started_it_and_keeps_its_connections(start: Open) -> None:
    sandbox = start()
    with Link(sandbox) as one, Link(sandbox) as other:
        for number in range(3):
            assert one.ask("/todo/add", {"text": str(number)}).status == 200
            assert f"{number}" in other.ask("/todo/list", {}).text
    assert len(json.loads(launch.export(sandbox))["state"]["todo"]) == 4


def test_many_at_once_are_one_after_the_other(start: Open) -> None:
    sandbox = start()

    def add(name: int) -> None:
        with Link(sandbox) as link:
            for _ in range(10):
                link.ask("/todo/add", {"text": str(name)})

    threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    export = json.loads(launch.export(sandbox))
    assert [entry["seq"] for entry in export["audit"]] == list(range(1, 41))
    assert len(export["state"]["todo"]) == 41


HOSTILE: list[tuple[bytes, int]] = [
    (b"nonsense\r\n\r\n", 400),
    (b"GET /mail/list HTTP/1.1\r\n\r\n", 405),
    (b"POST /mail/list HTTP/1.1\r\nContent-Length: 3\r\n\r\n{a}", 400),
    (b"POST /mail/list HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /mail/list HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /mail/list HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /mail/list HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 400),
    (b"POST /mail/lst HTTP/1.1\r\n\r\n", 404),
    (b"POST /mail/list HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000, 400),
    (b"POST /_export HTTP/1.1\r\nX-Proof: \xff\r\n\r\n", 403),
    (b'POST /mail/list HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"\\ud800": 1}', 400),
    (b"POST /mail/list HTTP/1.1\r\nContent-Length: 9\r\n", 400),
]


def test_requests_of_any_kind_are_answered(start: Open) -> None:
    sandbox = start()
    for sent, status in HOSTILE:
        with sandbox.connect(PORT) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(4096).startswith(f"HTTP/1.1 {status} ".encode()), sent[:80]
    assert json.loads(launch.export(sandbox))["state"] == json.loads(launch.initial(small()))["state"]


def test_half_a_request_holds_nobody_up(start: Open) -> None:
    sandbox = start()
    with sandbox.connect(PORT) as silent, Link(sandbox) as link:
        silent.sendall(b"POST /mail/list HTTP/1.1\r\nContent-Le")
        assert link.ask("/mail/list", {}).status == 200


def test_a_shell_cannot_look_into_the_services(start: Open) -> None:
    sandbox = start(faults=[{"tool": "mail_list", "calls": [99], "kind": "timeout", "retry_after": 87654}])
    pid = sandbox.exec(SERVICES).stdout.decode().split()[0]
    for part in ("mem", "environ", "maps", "fd/3"):
        read = sandbox.exec(f"head -c 100 /proc/{pid}/{part}")
        assert not read.ok and "ermission denied" in read.stderr.decode(), part
    assert not sandbox.exec("grep -rs 87654 /tmp /run /opt /workspace /proc/[0-9]*/environ /proc/[0-9]*/cmdline").stdout


def test_services_that_a_shell_ended_are_the_agents_doing(start: Open) -> None:
    sandbox = start()
    sandbox.exec(f"kill -9 $({SERVICES})")
    with pytest.raises(SandboxError) as caught:
        launch.export(sandbox, shell=True)
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("world_gone", "model")
    with pytest.raises(SandboxError) as caught:
        launch.export(sandbox)
    assert caught.value.fault.attributable == "infra"


def test_services_that_a_shell_replaced_are_not_believed(start: Open) -> None:
    sandbox = start()
    sandbox.exec(f"kill -9 $({SERVICES})")
    forged = "HTTP/1.1 200 OK\\r\\nX-Proof: 00\\r\\nContent-Length: 2\\r\\n\\r\\n{}"
    code = f"""
import os, socket
server = socket.create_server(("127.0.0.1", {PORT}))
if os.fork(): os._exit(0)
os.setsid()
connection, _ = server.accept()
connection.recv(65536)
connection.sendall(b"{forged}")
connection.recv(1)
"""
    assert sandbox.exec(["sh", "-c", '"$CLAW_PYTHON" -c "$0" >/dev/null 2>&1', code]).ok
    with pytest.raises(SandboxError) as caught:
        launch.export(sandbox, shell=True)
    assert caught.value.fault.code == "world_forged"


def test_a_token_opens_no_other_sandbox(start: Open) -> None:
    first, second = start(), start()
    proofs = []
    for sandbox in (first, second):
        with Link(sandbox) as link:
            reply = link.ask(
                "/_export", {}, {"X-Nonce": "n", "X-Proof": launch.proof(launch._token(first), "export", "n")}
            )
            proofs.append(reply.status)
    assert proofs == [200, 403]


def test_a_sandbox_without_the_services_says_what_is_missing(env: LocalEnv) -> None:
    with env.open(Spec()) as sandbox, pytest.raises(SandboxError) as caught:
        launch.start(sandbox, small())
    assert caught.value.fault.code == "world_not_started"


def test_without_isolation_the_attempt_is_a_lost_cause() -> None:
    spec = Spec(binds=launch.binds(), env=launch.variables())
    with LocalEnv(isolation="process") as plain, plain.open(spec) as sandbox, pytest.raises(SandboxError) as caught:
        launch.start(sandbox, small())
    assert (caught.value.fault.attributable, caught.value.fault.retry) == ("client", "never")
    assert "env.isolation=bwrap" in caught.value.hint


def test_a_second_world_in_one_sandbox_is_refused(start: Open) -> None:
    sandbox = start()
    with pytest.raises(SandboxError, match="in use") as caught:
        launch.start(sandbox, small())
    assert caught.value.fault.attributable == "infra"
