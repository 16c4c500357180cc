"""A chat endpoint on this machine that answers as told, and something to judge."""

import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from orchard_cli.recipes.gui.judges import Evidence, Judge, Shot, judge_of
from orchard_cli.recipes.gui.judges.webjudge import MOST

from orchard_cli import schema
from orchard_cli.policy import open_teacher
from orchard_cli.policy.policy import Policy
from orchard_cli.trajectory import Blobs


class Endpoint:
    """Plays `answers` in order, the last one for ever: texts, or HTTP errors as numbers. Remembers the questions."""

    def __init__(self) -> None:
        self.answers: list[str | int] = ["SUCCESS"]
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                said = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                message = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
                body = json.dumps({"choices": [message]} if isinstance(said, str) else {"error": "no"}).encode()
                self.send_response(200 if isinstance(said, str) else said)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def texts(self, number: int) -> str:
        """All words of one question."""
        parts = [m["content"] for m in self.asked[number]["messages"]]
        return "\n".join(p if isinstance(p, str) else "".join(q.get("text", "") for q in p) for p in parts)

    def pictures(self, number: int) -> list[str]:
        content = self.asked[number]["messages"][-1]["content"]
        return [p["image_url"]["url"] for p in content if p["type"] == "image_url"] if isinstance(content, list) else []


@pytest.fixture(scope="session")
def served() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def endpoint(served: Endpoint) -> Endpoint:
    served.answers, served.asked = ["SUCCESS"], []
    return served


@pytest.fixture(scope="session")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Blobs:
    return Blobs(tmp_path_factory.mktemp("run") / "blobs")


@pytest.fixture(scope="session")
def policy(served: Endpoint, blobs: Blobs) -> Iterator[Policy]:
    """One client for all tests: making one takes longer than a test."""
    policy = open_teacher(settings(served), blobs, images=MOST)
    yield policy
    policy.close()


def settings(endpoint: Endpoint) -> schema.Teacher:
    return schema.Teacher(kind="http", model="judge", base_url=endpoint.url, retries=0, timeout_s=10)


Ask = Callable[..., Judge]


@pytest.fixture
def ask(endpoint: Endpoint, policy: Policy) -> Ask:
    """`ask(kind)`: that judge, behind the endpoint."""
    return lambda kind, **options: judge_of(kind, policy, **options)


@pytest.fixture
def seen(blobs: Blobs) -> Evidence:
    """Four screenshots, three actions, an answer."""
    shots = tuple(Shot(image=blobs.put(picture(colour))) for colour in range(4))
    actions = ("click(id=3)", 'write(id=4, message="mug")', 'done(response="$12.50")')
    return Evidence("Find the price of the mug.", "$12.50", actions, shots, "http://shop.example/")


def picture(colour: int) -> bytes:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixel = zlib.compress(bytes([0, colour, 0, 0]))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
