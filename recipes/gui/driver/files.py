"""Serves a folder on a loopback port: `python -m driver.files FOLDER PORT`."""

import functools
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Files(SimpleHTTPRequestHandler):
    """Connections are kept, and what was sent once need not be asked for again."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".html": "text/html; charset=utf-8"}

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up is no news."""


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[2])), functools.partial(Files, directory=sys.argv[1])).serve_forever()
