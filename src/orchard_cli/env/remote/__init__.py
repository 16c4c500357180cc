"""Sandboxes behind an `orchard env serve`, used like those of this machine. `RemoteEnv` blocks, `AsyncEnv` awaits."""

from .aio import AsyncEnv, AsyncSandbox
from .env import RemoteEnv, open_remote
from .sandbox import RemoteSandbox

__all__ = ["AsyncEnv", "AsyncSandbox", "RemoteEnv", "RemoteSandbox", "open_remote"]
