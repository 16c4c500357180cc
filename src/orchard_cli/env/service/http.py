"""HTTP as it is spoken here: what cannot be read at all is answered by a problem document, as everything else is."""

from typing import TYPE_CHECKING

import msgspec

from .problem import problem, refused

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Spoken
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as Spoken

HEAD = (
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
    "Content-Length: {}\r\nConnection: close\r\n\r\n"
)


class Http(Spoken):
    def send_400_response(self, msg: str) -> None:
        """Written past the parser, which is at an end with this connection."""
        said = problem(refused("this is no HTTP request: a header or its first line is wrong", "client.bad_request"))
        body = msgspec.json.encode(said)
        self.transport.write(HEAD.format(len(body)).encode() + body)
        self.transport.close()
