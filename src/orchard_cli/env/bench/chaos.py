"""Commands over connections that break and repeat: each leaves a line where it ran, and the lines are counted there."""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import Effect, SandboxError
from ..agent.pack import pack
from ..channel import Channel
from ..remote.env import RemoteEnv
from ..running import order
from ..sandbox import Spec
from ..service.bench import served_by
from .agents import started
from .relay import Relay
from .times import Note

WORKERS, ASKED = 8, 40  # threads; how often one call is asked for before it counts as failed
BATCH, TELL_S = 500, 30.0
Call = Callable[[str], None]


@dataclass(frozen=True)
class Counted:
    """Of one way to an agent. Nothing is believed: `ran` is what the commands themselves wrote."""

    way: str
    calls: int
    answered: int  # of those, with an answer in the end
    ran: int
    twice: int  # that ran more than once
    missing: int  # that were answered but did not run
    done: dict[str, int]  # what the network did, to how many requests
    seconds: float
    stopped: bool


def chaos(calls: int, note: Note, seed: int = 1) -> list[Counted]:
    """Half of the calls straight to an agent, half over REST. Ctrl-C ends it with what was done."""
    half = calls // 2
    with tempfile.TemporaryDirectory() as folder:
        found = [_agent(Path(folder), calls - half, note, seed)]
        if half and not found[0].stopped:
            found.append(_rest(Path(folder), half, note, seed))
    return found


def _agent(folder: Path, calls: int, note: Note, seed: int) -> Counted:
    """An agent as in an image, over its own HTTP, with the client that every back end uses."""
    file, log = folder / "agent.pyz", folder / "log"
    file.write_bytes(pack())
    log.touch()
    with started(file, f"{folder}/s", str(folder)) as agent:
        relay = Relay(f"{folder}/s", seed)
        channel = Channel(str(relay.address), "box", "token", _lost)

        def call(key: str) -> None:
            body = order(["/bin/sh", "-c", "echo $0 >>log", key], ring_bytes=0, timeout_s=60.0)
            headers, query = {"Idempotency-Key": key}, {"wait_s": 60}
            channel.ask("POST", "/v1/execs", body, query=query, headers=headers, wait_s=120, again=True)

        try:
            return _counted("agent", call, calls, relay, lambda: log.read_text().split(), note)
        finally:
            channel.close()
            relay.close()
            agent.kill()


def _rest(folder: Path, calls: int, note: Note, seed: int) -> Counted:
    """The server as `orchard env serve` runs it, the client as `env=remote` uses it."""
    with served_by(folder) as (url, key), RemoteEnv(url, key) as calm, calm.open(Spec()) as box:
        host, _, port = urlsplit(url).netloc.rpartition(":")
        relay = Relay((host, int(port)), seed)
        with RemoteEnv("http://{}:{}".format(*relay.address), key) as env:
            way = env.attach(box.id)

            def call(name: str) -> None:
                way.exec(["/bin/sh", "-c", "echo $0 >>log", name])

            def log() -> list[str]:
                return box.exec("cat log", max_bytes=1 << 26).stdout.decode().split()

            try:
                return _counted("REST", call, calls, relay, log, note, asked=1)  # a new key each time it is asked
            finally:
                relay.close()


def _counted(
    way: str, call: Call, calls: int, relay: Relay, log: Callable[[], list[str]], note: Note, asked: int = ASKED
) -> Counted:
    began, over, answered = time.monotonic(), threading.Event(), set[str]()

    def one(number: int) -> None:
        key = f"k{number}"
        for _ in range(0 if over.is_set() else asked):
            with suppress(SandboxError):
                call(key)
                answered.add(key)
                return

    pool = ThreadPoolExecutor(WORKERS)
    told = began
    try:
        for start in range(0, calls, BATCH):
            list(pool.map(one, range(start, min(calls, start + BATCH))))
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                note(f"{way}: {start + BATCH} of {calls} calls in {told - began:.0f} s …")
    except KeyboardInterrupt:
        over.set()
        note(f"{way}: stopped")
    pool.shutdown(cancel_futures=True)
    relay.calm = True
    time.sleep(1.0)  # what was repeated and not waited for
    ran = Counter(log())
    asked_for = calls if not over.is_set() else max(len(answered), len(ran))
    twice, missing = sum(count > 1 for count in ran.values()), len(answered - set(ran))
    seconds = time.monotonic() - began
    counts = (asked_for, len(answered), len(ran), twice, missing)
    return Counted(way, *counts, dict(relay.done), seconds, over.is_set())


def _lost(effect: Effect) -> SandboxError:
    return SandboxError("the agent is out of reach", code="infra.agent_lost", effect=effect)
