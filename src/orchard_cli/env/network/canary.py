"""What must be out of reach of every sandbox, kept alive out here so that reaching it would succeed."""

import secrets
import socket

Canary = tuple[str, str, int]  # (tcp | tcp6 | udp | udp6 | unix, address, port)
# No byte is sent to these: a datagram socket that connects only asks whether there is a route.
ROUTES: tuple[Canary, ...] = (("udp", "8.8.8.8", 53), ("udp6", "2001:4860:4860::8888", 53))


class Canaries:
    """A port and an abstract Unix name of this machine; both end with `close`."""

    def __init__(self) -> None:
        self._port = socket.create_server(("127.0.0.1", 0))
        self._name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"orchard-canary-{secrets.token_hex(8)}"
        self._name.bind(f"\0{name}")
        self._name.listen()
        self.all: tuple[Canary, ...] = (
            ("tcp", "127.0.0.1", self._port.getsockname()[1]),
            ("unix", name, 0),
            *ROUTES,
        )

    def close(self) -> None:
        self._port.close()
        self._name.close()
