"""A chat endpoint on this machine that plays what a test tells it to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Endpoint:
    """Plays `answers` (status, body) in order, the last one for ever; remembers what it was asked.

    A body is JSON, or text as it is; status 0 never answers, until `close`.
    """

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers: list[tuple[int, Any]] = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.release = threading.Event()
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer.keys.append(self.headers["Authorization"])
                status, answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if status == 0:
                    outer.release.wait(20)
                    return
                sent = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.send_header("Retry-After", "0.01")
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self) -> None:
        self.release.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def completion(content: str | None = "hello", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion of 1,000 prompt tokens and 200 of its own."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200},
    }
