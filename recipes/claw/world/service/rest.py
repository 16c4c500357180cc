"""The REST face: `POST /<service>/<verb>` with a JSON object, on one loopback port, connections kept alive.

A small server of our own: the standard one doubles the time to start and the memory of a world, and sixty-four of
them must fit on a small machine. Whatever arrives is bounded and answered or dropped.
"""

import hashlib
import hmac
import json
import socket
import threading
from typing import Any

from .answer import Answer
from .world import FACES, World

MOST_HEAD, MOST_BODY, MOST_CONNECTIONS, IDLE_S = 16_384, 1_048_576, 32, 3600.0
REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 413: "Too Large"}


def proof(token: str, *said: str) -> str:
    """What only who knows the token can say about `said`."""
    return hmac.new(token.encode(), "\n".join(said).encode(), hashlib.sha256).hexdigest()


class Bad(Exception):
    """A request that cannot be read; the connection is closed after the answer."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class Server:
    """Serves one world. Only who can prove to know `token` may `POST /_export`; the token itself never travels, and the
    answer proves that it comes from here and not from somebody who took our place."""

    def __init__(self, world: World, token: str, port: int):
        self._world, self._token = world, token
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._socket = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self._socket.getsockname()[1]

    def run(self) -> None:
        """Until the process ends."""
        while True:
            connection, _ = self._socket.accept()
            self._room.acquire()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(IDLE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                with connection.makefile("rb", 65_536) as stream:
                    while self._one(stream, connection):
                        pass
            except OSError:
                pass  # the other side is gone, or says nothing
            finally:
                self._room.release()

    def _one(self, stream: Any, connection: socket.socket) -> bool:
        """Answer one request; False when no other is to come."""
        try:
            request = _request(stream)
            if request is None:
                return False
            method, path, headers, body = request
            status, reply = self._route(method, path, headers, body)
            more, nonce = headers.get("connection", "").lower() != "close", headers.get("x-nonce", "")
        except Bad as bad:
            status, reply = bad.status, {"code": "bad_arguments", "text": f"bad_arguments: {bad}"}
            more, nonce = False, ""
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        data = text.encode(errors="replace")
        keep = "keep-alive" if more else "close"
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\nContent-Type: application/json\r\n"
        if isinstance(reply, str):
            head += f"X-Proof: {proof(self._token, 'state', nonce, text)}\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\nConnection: {keep}\r\n\r\n".encode() + data)
        return more

    def _route(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/_health":
            return 200, {"code": "ok", "text": "ok"}
        if path == "/_tools":
            return 200, [operation.tool() for operation in self._world.operations.values()]
        if method != "POST":
            return 405, {"code": "bad_arguments", "text": "bad_arguments: use POST"}
        if path == "/_export":
            wanted = proof(self._token, "export", headers.get("x-nonce", ""))
            right = hmac.compare_digest(headers.get("x-proof", "").encode(), wanted.encode())
            return (200, self._world.export()) if right else (403, {"code": "refused", "text": "refused: no"})
        answer = self._call(path, headers, body)
        return answer.status, {"code": answer.code, "text": answer.text}

    def _call(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        try:
            arguments = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            return Answer("bad_arguments", "bad_arguments: the body is not JSON")
        face = headers.get("x-face", "rest")
        tool = "_".join(path.strip("/").split("/"))
        return self._world.call(tool, arguments, face if face in FACES else "rest")


def _request(stream: Any) -> tuple[str, str, dict[str, str], bytes] | None:
    """Method, path, headers and body; None at the end of the stream. Raises `Bad`."""
    first = stream.readline(MOST_HEAD)
    if not first.strip():
        return None
    words = first.decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not first.endswith(b"\n"):
        raise Bad(400, "not an HTTP request")
    headers, room = {}, MOST_HEAD
    while (line := stream.readline(room)).strip():
        room -= len(line)
        name, colon, value = line.decode("latin-1").partition(":")
        if room <= 0 or not colon:
            raise Bad(400, "bad headers")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        raise Bad(400, "a body needs a Content-Length")
    if len(length) > 9 or int(length) > MOST_BODY:
        raise Bad(413, "the body is too large")
    body = stream.read(int(length))
    if len(body) < int(length):
        raise Bad(400, "the body ends early")
    return words[0], words[1].partition("?")[0], headers, body
