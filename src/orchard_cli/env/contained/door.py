"""A way out of one contained sandbox, from outside: each connection that its agent asks for is made here.

The sandbox is given descriptors of connections to one socket of ours and nothing else: it can ask for more of them,
which whoever serves that socket bounds. What stands between program and socket can be killed by the workload, which
only takes the workload's own way for a moment.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...errors import SandboxError
from ..channel import Channel

LISTEN_S, AGAIN_S, BACKLOG = 30.0, 0.5, 128
TAKEN = "workload.port_taken"


class Door:
    """`port` listens inside when it is made; raises `SandboxError`. `listener` is for whoever serves it, and theirs.

    It is kept open while the sandbox is `alive`.
    """

    def __init__(self, folder: Path, channel: Channel, port: int, alive: Callable[[], bool]):
        self._channel, self._port, self._alive = channel, port, alive
        self._over = threading.Event()
        # A Unix address has at most 107 bytes; this one is short wherever the folder lies.
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._address = f"/proc/self/fd/{self._folder}/way-{port}"
        self.listener = socket.socket(socket.AF_UNIX)
        left = Path(self._address).exists()
        try:
            Path(self._address).unlink(missing_ok=True)
            self.listener.bind(self._address)
            self.listener.listen(BACKLOG)
            self._control = self._first(LISTEN_S if left else 0.0)
        except BaseException:
            self.listener.close()
            os.close(self._folder)
            raise
        self._thread = threading.Thread(target=self._serve, name=f"orchard-door-{port}", daemon=True)
        self._thread.start()

    def _first(self, patience_s: float) -> socket.socket:
        """Where a driver before us had this door, what it had inside takes a moment to see that nobody is there."""
        until = time.monotonic() + patience_s
        while True:
            try:
                return self._ask()
            except SandboxError as error:
                if error.fault.code != TAKEN or time.monotonic() > until:
                    raise
            time.sleep(0.05)

    def _ask(self) -> socket.socket:
        return self._channel.upgrade(f"/v1/ways/{self._port}", query={}, wait_s=LISTEN_S)

    def _serve(self) -> None:
        while True:
            with self._control, suppress(OSError):
                while asked := self._control.recv(64):
                    for _ in asked:
                        self._pass()
            if not self._again():
                return

    def _pass(self) -> None:
        """One more connection for the sandbox, or word that there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as out:
                out.setblocking(False)  # where too many wait already, we do not
                out.connect(self._address)
                socket.send_fds(self._control, [b"."], [out.fileno()])
        except OSError:
            self._control.sendall(b"!")

    def _again(self) -> bool:
        """Have the port listen once more. A workload that kills or starves it has it back when it leaves off."""
        while not self._over.wait(AGAIN_S) and self._alive():
            with suppress(SandboxError):
                self._control = self._ask()
                return True
        return False

    def shut(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """After the sandbox's end, which ends whatever is still asked of it."""
        self.shut()
        self._thread.join()
        os.close(self._folder)
