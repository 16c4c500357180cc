"""How much one sandbox may send and get, and how much it has."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Caps:
    """Bounds of one way out of one sandbox. Bytes count over its whole life; 0 means no bound."""

    connections: int = 64  # at once
    up_bytes: int = 1 << 30
    down_bytes: int = 16 << 30
    head_bytes: int = 32_768
    head_s: float = 10.0  # for a request's head, or the first message of TLS
    connect_s: float = 10.0  # to look up the name and to connect
    idle_s: float = 120.0  # without a byte in either direction


class CapReached(Exception):
    """The sandbox has used up what it may send or get."""


@dataclass
class Meter:
    caps: Caps
    up: int = 0
    down: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)  # how often each was given

    def take(self, up: int = 0, down: int = 0) -> None:
        """Count bytes before they are passed on. Raises `CapReached`."""
        self.up += up
        self.down += down
        if up and 0 < self.caps.up_bytes < self.up:
            raise CapReached(f"{self.caps.up_bytes} bytes may be sent")
        if down and 0 < self.caps.down_bytes < self.down:
            raise CapReached(f"{self.caps.down_bytes} bytes may be received")
