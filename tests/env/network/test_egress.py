"""What passes the proxy, what does not, and what reaches the other side."""

import json
import socket
import ssl

import pytest

from orchard_cli.env.network.network import Gate, Network

from .conftest import FAR, Names, Open, Site, connect, dial, exactly, get, head_of, heard, status, talk


def body(answer: bytes) -> dict[str, object]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])  # type: ignore[no-any-return]


@pytest.fixture
def gate(opens: Open, names: Names, site: Site) -> Gate:
    names.set("site.test", FAR)
    return opens(f"site.test:{site.port}", f"{FAR}:{site.port}")


def test_plain_http_is_forwarded_in_origin_form(gate: Gate, site: Site) -> None:
    answer = talk(gate, get(f"http://site.test:{site.port}/a?b=c", "X-Mine: 1", "Proxy-Authorization: Basic x"))
    seen = body(answer)
    assert status(answer) == 200 and seen["path"] == "/a?b=c"
    headers = {key.lower(): value for key, value in seen["headers"].items()}  # type: ignore[attr-defined]
    assert headers == {"x-mine": "1", "host": f"site.test:{site.port}", "connection": "close"}


def test_several_requests_on_one_connection_are_each_judged(gate: Gate, site: Site) -> None:
    with dial(gate) as wire:
        for path in ("one", "two"):
            url = f"http://site.test:{site.port}/{path}"
            wire.sendall(f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = head_of(wire).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert json.loads(exactly(wire, length))["path"] == f"/{path}"
        wire.sendall(get("http://elsewhere.test/"))
        assert status(heard(wire)) == 403


@pytest.mark.parametrize("coding", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_bodies_are_passed_on(gate: Gate, site: Site, coding: str) -> None:
    data = b"hello" if "Length" in coding else b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
    answer = talk(gate, get(f"http://site.test:{site.port}/", coding, method="POST") + data)
    assert body(answer)["body"] == "hello"


def test_a_client_that_waits_is_told_to_go_on(gate: Gate, site: Site) -> None:
    with dial(gate) as wire:
        wire.sendall(get(f"http://site.test:{site.port}/", "Content-Length: 5", "Expect: 100-continue", method="POST"))
        assert status(head_of(wire)) == 100
        wire.sendall(b"hello")
        assert body(heard(wire))["body"] == "hello"


def test_head_has_no_body(gate: Gate, site: Site) -> None:
    answer = talk(gate, get(f"http://site.test:{site.port}/", method="HEAD"))
    assert status(answer) == 200 and answer.endswith(b"\r\n\r\n")


def test_tls_goes_through_untouched(opens: Open, names: Names, tls_site: Site, trust: ssl.SSLContext) -> None:
    names.set("site.test", FAR)
    gate = opens(f"site.test:{tls_site.port}", f"{FAR}:{tls_site.port}")
    with dial(gate) as wire:
        wire.sendall(connect(f"site.test:{tls_site.port}"))
        assert status(head_of(wire)) == 200
        with trust.wrap_socket(wire, server_hostname="site.test") as safe:
            safe.sendall(b"GET /x HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
            assert body(heard_tls(safe))["path"] == "/x"


def heard_tls(safe: ssl.SSLSocket) -> bytes:
    data = b""
    while piece := safe.recv(65536):
        data += piece
    return data


def tunnelled(gate: Gate, target: str, said: bytes) -> bytes:
    with dial(gate) as wire:
        wire.sendall(connect(target))
        assert status(head_of(wire)) == 200
        wire.sendall(said)
        return heard(wire)


def client_hello(server_name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=server_name).do_handshake()
    return outgoing.read()


NOT_FOR_IT = {
    "another name": client_hello("other.test"),
    "no name": client_hello(None),
    "plain http": b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "zeros": b"\0" * 600,
    "half a hello": client_hello("site.test")[:40] + b"\xff" * 600,
}


@pytest.mark.parametrize("said", NOT_FOR_IT.values(), ids=NOT_FOR_IT.keys())
def test_a_tunnel_that_is_not_tls_for_its_host_carries_nothing(
    opens: Open, names: Names, network: Network, said: bytes
) -> None:
    names.set("site.test", FAR)
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
        gate = opens(f"site.test:{port}", f"{FAR}:{port}")
        assert tunnelled(gate, f"site.test:{port}", said) in (b"", b"<reset>")
        taken, _ = server.accept()
        with taken:
            assert heard(taken) in (b"", b"<reset>")
    (decision,) = network.log.last()
    assert decision.verdict == "refused" and "TLS" in decision.reason and decision.address == FAR


def test_a_hello_in_pieces_is_still_read(opens: Open, names: Names) -> None:
    names.set("site.test", FAR)
    hello = client_hello("site.test")
    with (
        socket.create_server((FAR, 0)) as server,
        dial(gate := opens("site.test:*", f"{FAR}:{server.getsockname()[1]}")) as wire,
    ):
        assert gate
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.sendall(connect(f"site.test:{server.getsockname()[1]}") + hello[:3])
        head_of(wire)
        for at in range(3, len(hello), 50):
            wire.sendall(hello[at : at + 50])
        taken, _ = server.accept()
        with taken:
            assert exactly(taken, len(hello)) == hello


def test_an_address_that_a_rule_names_needs_no_tls(opens: Open) -> None:
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
        with dial(opens(f"{FAR}:{port}")) as wire:
            wire.sendall(connect(f"{FAR}:{port}") + b"ping")
            taken, _ = server.accept()
            with taken:
                assert taken.recv(4) == b"ping"
                taken.sendall(b"pong")
                taken.shutdown(socket.SHUT_WR)
                assert status(head_of(wire)) == 200 and heard(wire) == b"pong"


def test_names_that_no_rule_allows_are_not_even_looked_up(gate: Gate, names: Names) -> None:
    secret = "c2VjcmV0.evil.test"
    assert status(talk(gate, connect(f"{secret}:443"))) == 403
    assert status(talk(gate, get(f"http://{secret}/"))) == 403
    assert names.asked == []


LEADS_INSIDE = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "fd00::1",
    "0.0.0.0",
]


@pytest.mark.parametrize("kind", ["allowlist", "open"])
@pytest.mark.parametrize("address", LEADS_INSIDE)
def test_names_that_lead_inside_are_refused(
    opens: Open, names: Names, network: Network, kind: str, address: str
) -> None:
    names.set("site.test", ["1.1.1.1", address])  # one public answer does not help
    gate = opens("site.test", kind=kind)
    assert status(talk(gate, connect("site.test:443"))) == 403
    assert status(talk(gate, get("http://site.test/"))) == 403
    assert {item.verdict for item in network.log.last()} == {"refused"}


def test_what_was_looked_up_is_where_it_goes(opens: Open, names: Names, site: Site) -> None:
    names.set("site.test", FAR, "127.0.0.1")  # a second look would find this machine
    with socket.create_server(("127.0.0.1", site.port)) as trap:
        trap.setblocking(False)
        gate = opens(f"site.test:{site.port}", f"{FAR}:{site.port}")
        assert status(talk(gate, get(f"http://site.test:{site.port}/"))) == 200
        assert names.asked == ["site.test"]
        assert status(talk(gate, get(f"http://site.test:{site.port}/"))) == 403  # and now it leads there
        with pytest.raises(BlockingIOError):
            trap.accept()


INSIDE = """127.0.0.1:22 2130706433:80 0x7f000001:80 0177.0.0.1:80 127.1:80 [::1]:22 [::ffff:127.0.0.1]:80 localhost:22
169.254.169.254:80 [fd00:ec2::254]:80 10.0.0.1:443 0.0.0.0:80 [::]:80 metadata.google.internal:80"""


@pytest.mark.parametrize("target", INSIDE.split())
@pytest.mark.parametrize("kind", ["allowlist", "open"])
def test_this_machine_and_its_neighbours_cannot_be_asked_for(opens: Open, names: Names, target: str, kind: str) -> None:
    names.set("localhost", "127.0.0.1")
    names.set("metadata.google.internal", "169.254.169.254")
    gate = opens("site.test", kind=kind)
    assert status(talk(gate, connect(target))) in (400, 403)
    assert status(talk(gate, get(f"http://{target}/"))) in (400, 403)


def test_open_reaches_private_addresses_only_by_rule(opens: Open, site: Site) -> None:
    url = f"http://{FAR}:{site.port}/"
    assert status(talk(opens(kind="open"), get(url))) == 403
    assert status(talk(opens(f"{FAR}:{site.port}", kind="open"), get(url))) == 200


def test_none_lets_nothing_through(opens: Open) -> None:
    gate = opens(kind="none")
    assert status(talk(gate, get("http://site.test/"))) == 403 == status(talk(gate, connect("site.test:443")))


def test_a_server_that_is_not_there_is_a_failure_not_a_refusal(opens: Open, names: Names, network: Network) -> None:
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
    names.set("site.test", FAR)
    gate = opens(f"site.test:{port}", f"{FAR}:{port}", "gone.test")
    assert status(talk(gate, get(f"http://site.test:{port}/"))) == 502
    assert status(talk(gate, get("http://gone.test/"))) == 502
    assert [item.verdict for item in network.log.last()] == ["failed", "failed"]
