"""A fork with everything that runs: the sandbox goes to disk and comes back twice, the second time as another one."""

import os
import shutil
import socket
from collections.abc import Callable

from ...errors import Effect, SandboxError
from ..channel import Channel
from ..wire import Dial
from .held import Held
from .keeper import Kept, gone
from .making import Making, Runtime

LINGER_S, BACK_S = 10.0, 60.0  # what transfers under way may take to end; and a sandbox to answer when it is back


def twin(runtime: Runtime, kept: Kept, making: Making, back: Callable[[], None]) -> tuple[Held, str]:
    """A sandbox of `making`'s name with all that `kept` has and runs, and its token. Raises `SandboxError`.

    `back` is called when `kept` has come back. Connections into both end, and those out of them: who waits for a
    command goes on waiting. Where the fault is `infra.freeze_failed` and the runtime has ended the sandbox, it is lost,
    and whoever uses it next is told so.
    """
    if not kept.held.alive():
        raise gone(kept.held, "none")
    frozen = making.folder / "frozen"
    frozen.mkdir()
    old = kept.making
    with kept.held.shut() as dial:
        try:
            _ask(dial, kept, "quiet", wait_s=LINGER_S)
            runtime.freeze(old, frozen)
            kept.held.renew(runtime.start(old, frozen))
            _ask(dial, kept, "identity")
            back()
            held, token = runtime.start(making, frozen), os.urandom(16).hex()
            try:
                _ask(held.dial, kept, "identity", sandbox=making.name, token=token)
            except BaseException:
                held.end()
                raise
            return held, token
        finally:
            shutil.rmtree(frozen, ignore_errors=True)


def _ask(dial: Dial, kept: Kept, what: str, **query: object) -> None:
    """And wait until the agent has closed this connection as well."""
    copies: list[socket.socket] = []

    def dialled() -> socket.socket:
        sock = dial()
        copies.append(sock.dup())
        return sock

    def lost(effect: Effect) -> SandboxError:
        return gone(kept.held, effect)

    channel = Channel(dialled, kept.making.name, kept.token, lost)
    try:
        channel.ask("POST", f"/v1/{what}", query=query, headers={"Connection": "close"}, wait_s=BACK_S)
        for copy in copies:
            copy.settimeout(BACK_S)
            while copy.recv(4096):
                pass
    except OSError as error:
        raise SandboxError(f"the agent does not hang up: {error}", code="infra.agent_silent") from error
    finally:
        channel.close()
        for copy in copies:
            copy.close()
