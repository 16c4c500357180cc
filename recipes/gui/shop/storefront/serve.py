"""The HTTP side: one write an answer, connections kept, forms of a sane size."""

import json
import sys
from argparse import ArgumentParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from urllib.parse import parse_qsl

from .app import Shop
from .shopper import Shopper

MOST_BYTES = 65_536  # of a form
TOKEN = "X-Shop-Token"


def words(text: str) -> dict[str, str]:
    """The fields of a query or form; of a repeated one the last."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))
    except ValueError:
        return {}


class Exchange(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 300  # seconds that a silent connection is kept

    @property
    def shop(self) -> Shop:
        return self.server.shop

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/__state" and self.shop.trusted(self.headers[TOKEN]):
            return self._send(200, self.shop.state(), "application/json")
        return self._page(*self.shop.get(path, words(query)))

    def do_POST(self) -> None:
        length = self.headers["Content-Length"] or "0"
        if not (length.isascii() and length.isdigit()) or int(length) > MOST_BYTES:
            self.close_connection = True
            return self._send(413, b"too much", "text/plain")
        body = self.rfile.read(int(length))
        path = self.path.partition("?")[0]
        if path == "/__reset" and self.shop.trusted(self.headers[TOKEN]):
            return self._send(200, self.shop.reset(body), "application/json")
        return self._page(*self.shop.post(path, words(body.decode("utf-8", "replace"))))

    def _page(self, status: int, text: str) -> None:
        if status == 303:
            return self._send(303, b"", "text/html", text)
        return self._send(status, text.encode("utf-8", "replace"), "text/html; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str, where: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if where:
            self.send_header("Location", where)
        if self.close_connection:
            self.send_header("Connection", "close")
        self._headers_buffer.append(b"\r\n" + body)  # one packet: headers and body
        self.flush_headers()

    def version_string(self) -> str:
        return "shop"

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, shop: Shop):
        super().__init__(("127.0.0.1", port), Exchange)
        self.shop = shop

    def server_bind(self) -> None:
        """Without asking a name server who 127.0.0.1 is, as the parent class does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up is no news."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def server(port: int, seed: int, state: Path, *, token: str = "", start: dict[str, object] | None = None) -> Server:
    """A shop on a loopback port (0: any), listening; call its `serve_forever`."""
    return Server(port, Shop(Shopper(seed, state, start), token))


def main() -> None:
    parser = ArgumentParser(description="A small web shop on 127.0.0.1 for one shopper.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True, help="file that holds what the shopper did")
    parser.add_argument("--setup", type=Path, help="JSON {token, start}; read once, then removed")
    parser.add_argument("--token", default="", help="opens /__state and /__reset; seen by whoever may list processes")
    given = parser.parse_args()
    setup = {"token": given.token}
    if given.setup:
        setup = json.loads(given.setup.read_text("utf-8"))
        given.setup.unlink()
    serving = server(given.port, given.seed, given.state, token=setup.get("token", ""), start=setup.get("start"))
    print(serving.server_address[1], flush=True)
    serving.serve_forever()
