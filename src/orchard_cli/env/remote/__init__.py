"""Sandboxes behind an `orchard env serve`, used like those of this machine. `RemoteEnv` blocks, `AsyncEnv` awaits."""

from .aio import AsyncEnv, AsyncSandbox
from .env import RemoteEnv
from .sandbox import RemoteSandbox
from .settings import open_remote
from .snapshots import Snapshots

__all__ = ["AsyncEnv", "AsyncSandbox", "RemoteEnv", "RemoteSandbox", "Snapshots", "open_remote"]
