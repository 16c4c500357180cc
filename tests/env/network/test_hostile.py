"""Requests that are made to be read in two ways."""

import http.server
import random
import socket

import pytest

from orchard_cli.env.network.network import Gate, Network

from .conftest import FAR, Names, Open, Site, connect, dial, get, head_of, heard, status, talk


@pytest.fixture
def gate(opens: Open, names: Names, site: Site) -> Gate:
    names.set("site.test", FAR)
    return opens(f"site.test:{site.port}", f"{FAR}:{site.port}", head_s=0.5, head_bytes=8192)


REQUESTS = {
    "origin form": b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "authority form": b"GET HOST HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "https in absolute form": b"GET https://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "ftp": b"GET ftp://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "user before the host": b"GET http://HOST@evil.test/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "host after a user": b"GET http://evil.test@HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "backslash": b"GET http://evil.test\\@HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "fragment": b"GET http://HOST/#@evil.test/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "no slashes": b"GET http:HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "three slashes": b"GET http:///HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "percent in host": b"GET http://site%2etest/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "two lengths": b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length and chunks": b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "odd coding": b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "signed length": b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: +3\r\n\r\nabc",
    "two hosts": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\nHost: evil.test\r\n\r\n",
    "space before the colon": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\nX : y\r\n\r\n",
    "NUL in a header": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\nX: a\0b\r\n\r\n",
    "lone CR in a header": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\nX: a\rY: b\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET http://HOST/\r\n\r\n",
    "HTTP/3.3": b"GET http://HOST/ HTTP/3.3\r\nHost: HOST\r\n\r\n",
    "TLS to the proxy": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
    "SOCKS5": b"\x05\x01\x00\r\n\r\n",
    "huge header": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\nX: " + b"x" * 9000,
    "many headers": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST\r\n" + b"X: y\r\n" * 2000,
    "huge request line": b"GET http://HOST/" + b"x" * 9000,
    "CONNECT with a body": b"CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nabcd",
    "CONNECT with a path": b"CONNECT HOST/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "CONNECT with a scheme": b"CONNECT https://HOST HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "CONNECT without a port": b"CONNECT site.test HTTP/1.1\r\nHost: HOST\r\n\r\n",
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_refused_and_nothing_reaches_the_server(gate: Gate, site: Site, network: Network, request_: bytes) -> None:
    answer = talk(gate, request_.replace(b"HOST", f"site.test:{site.port}".encode()))
    assert 400 <= status(answer) <= 505, answer[:200]
    assert site.seen == []
    assert {item.verdict for item in network.log.last()} == {"refused"}


def test_mutilated_requests_never_upset_the_proxy(gate: Gate, site: Site) -> None:
    """`network` checks at its end that nothing went wrong inside."""
    chance = random.Random(5)
    host = f"site.test:{site.port}".encode()
    good = get(f"http://site.test:{site.port}/p", "Content-Length: 4", method="POST") + b"body"
    for _ in range(150):
        words = bytearray(
            chance.choice([good, connect(host.decode()), *REQUESTS.values()]).replace(b"HOST", host)[:3000]
        )
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(words))
            words[at : at + chance.randrange(3)] = chance.choice([b"", b"\r\n", b"\0", b" ", b":", b"@", b"\xff", b"0"])
        with dial(gate) as wire:
            wire.sendall(bytes(words))
            wire.shutdown(socket.SHUT_WR)
            heard(wire)
    assert {seen["headers"]["host"] for seen in site.seen} <= {host.decode()}  # type: ignore[index]


def test_a_line_break_in_the_host_makes_no_second_request(gate: Gate, site: Site) -> None:
    target = f"site.test:{site.port} HTTP/1.1\r\nHost: x\r\n\r\nGET http://evil.test/"
    answer = talk(gate, b"GET http://" + target.encode() + b" HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert [seen["path"] for seen in site.seen] == ["/"] and answer.count(b"HTTP/1.1 403") == 1


def test_the_host_header_says_what_the_rule_allowed(gate: Gate, site: Site) -> None:
    line = f"GET http://site.test:{site.port}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"
    assert status(talk(gate, line.encode())) == 200
    assert site.seen[0]["headers"]["host"] == f"site.test:{site.port}"  # type: ignore[index]


def test_headers_of_one_connection_do_not_go_further(gate: Gate, site: Site) -> None:
    mine = ("Connection: x-secret, close", "X-Secret: 1", "Upgrade: websocket", "TE: trailers", "Keep-Alive: 5")
    url = f"http://site.test:{site.port}/"
    talk(gate, "\r\n".join([f"GET {url} HTTP/1.1", "Host: x", *mine, "", ""]).encode())
    assert set(site.seen[0]["headers"]) == {"host", "connection"}  # type: ignore[call-overload]


def test_a_folded_header_is_written_anew_in_one_line(gate: Gate, site: Site) -> None:
    talk(gate, get(f"http://site.test:{site.port}/", "X: a\r\n GET /evil HTTP/1.1"))
    (seen,) = site.seen
    assert seen["path"] == "/" and seen["headers"]["x"] == "a GET /evil HTTP/1.1"  # type: ignore[index]


@pytest.mark.parametrize("begin", [b"", b"G", b"GET http://site.test/ HTTP/1.1\r\nX: "])
def test_a_head_that_never_ends_is_cut_off(gate: Gate, network: Network, begin: bytes) -> None:
    with dial(gate) as wire:
        wire.sendall(begin)
        assert status(heard(wire)) == 408
    assert [item.reason for item in network.log.last()] == (["nothing came in time"] if begin else [])


def test_a_tunnel_that_stays_silent_is_cut_off(gate: Gate, site: Site) -> None:
    with dial(gate) as wire:
        wire.sendall(connect(f"site.test:{site.port}"))
        assert status(head_of(wire)) == 200 and heard(wire) in (b"", b"<reset>")


ANSWERS = {
    "no http": b"hello\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "nothing": b"",
    "promises only": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    "a huge header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000,
}


@pytest.mark.parametrize("said", ANSWERS.values(), ids=ANSWERS.keys())
def test_a_server_that_answers_badly_is_a_failure(opens: Open, names: Names, network: Network, said: bytes) -> None:
    class Bad(http.server.BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(said)

    site = Site(Bad)
    names.set("site.test", FAR)
    try:
        gate = opens(f"site.test:{site.port}", f"{FAR}:{site.port}", head_bytes=8192)
        assert status(talk(gate, get(f"http://site.test:{site.port}/"))) == 502
    finally:
        site.close()
    assert network.log.last()[0].verdict == "failed"


def test_an_answer_that_breaks_off_does_not_look_whole(opens: Open, names: Names) -> None:
    class Short(http.server.BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    site = Site(Short)
    names.set("site.test", FAR)
    try:
        answer = talk(opens("site.test:*", f"{FAR}:{site.port}"), get(f"http://site.test:{site.port}/"))
    finally:
        site.close()
    assert b"abc" in answer and not answer.endswith(b"0\r\n\r\n")


def test_a_client_that_leaves_ends_the_request_beyond(opens: Open, names: Names) -> None:
    names.set("site.test", FAR)
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
        with dial(opens(f"site.test:{port}", f"{FAR}:{port}")) as wire:
            wire.sendall(get(f"http://site.test:{port}/"))
            taken, _ = server.accept()
            with taken:
                taken.recv(10)
                wire.close()
                assert heard(taken).endswith((b"\r\n\r\n", b"<reset>"))
