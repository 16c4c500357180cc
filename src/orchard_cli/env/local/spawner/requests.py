"""What each request of the driver means."""

import os
import shutil
from collections.abc import Callable
from functools import partial

from ...agent.loop import Loop
from . import changes, gates, ports
from .enter import Plan
from .faults import Fault, Header, guarded
from .job import Job
from .places import Place, Places, gone
from .plain import Plain

Reply = Callable[[Header, bytes], None]
OP_DEADLINE = 120.0  # seconds for an operation of our own
DIFF_CAP = 1 << 27


def _nothing() -> None:
    return None


class Requests:
    """One method for each kind of request; each ends in one call of `reply(header, body)`."""

    def __init__(
        self,
        loop: Loop,
        passage: int = -1,
        outlive: Callable[[int, float], None] | None = None,
        dismissed: Callable[[], None] = _nothing,
    ):
        self._loop, self._passage, self._outlive, self._dismissed = loop, passage, outlive, dismissed
        self.places: Places | None = None
        self._hello: Header = {}
        self._notes: dict[str, str] = {}  # what the driver wants its successor to know of each sandbox

    def handle(self, header: Header, body: bytes, reply: Reply) -> None:
        call = getattr(self, f"do_{header['op']}")
        guarded(lambda: call(header, body, reply), lambda fault: reply({"fault": fault}, b""))

    def _all(self) -> Places:
        assert self.places is not None, "the first request is hello"
        return self.places

    def do_hello(self, header: Header, body: bytes, reply: Reply) -> None:
        self.places, self._hello = Places(self._loop, header), header
        if header.get("keep_s") and self._outlive is not None:
            self._outlive(self.places.host, header["keep_s"])
        reply(self._facts(), b"")

    def _facts(self) -> Header:
        return {"cgroups": self._all().cgroups.versions(), "seccomp": bool(self._all().calls)}

    def do_note(self, header: Header, body: bytes, reply: Reply) -> None:
        self._all().find(header["box"])
        self._notes[header["box"]] = header["note"]
        reply({}, b"")

    def do_inherit(self, header: Header, body: bytes, reply: Reply) -> None:
        """To the next driver: what there is, and what its predecessor knew. Without a note, it was never finished."""
        if self._outlive is not None:
            self._outlive(self._all().host, header["keep_s"])
        boxes = []
        for name, place in self._all().items():
            known = {"box": name, "workdir": place.workdir, "dead": place.dead, "note": self._notes.get(name, "")}
            env, token = place.env() if isinstance(place, Plain) else {}, place.agent.token if place.agent else ""
            boxes.append({**known, "env": env, "token": token})
        reply({"hello": self._hello, "facts": self._facts(), "boxes": boxes}, b"")

    def do_bye(self, header: Header, body: bytes, reply: Reply) -> None:
        self._dismissed()
        reply({}, b"")

    def do_create(self, header: Header, body: bytes, reply: Reply) -> None:
        def done(name: str, place: Place) -> None:
            env = place.env() if isinstance(place, Plain) else {}
            assert place.agent is not None
            reply(
                {"box": name, "workdir": place.workdir, "env": env, "token": place.agent.token, "way": place.way}, b""
            )

        self._all().create(header, done, lambda fault: reply({"fault": fault}, b""))

    def do_close(self, header: Header, body: bytes, reply: Reply) -> None:
        self._notes.pop(header["box"], None)
        self._all().close(header["box"], lambda: reply({}, b""))

    def do_state(self, header: Header, body: bytes, reply: Reply) -> None:
        place = self._all().find(header["box"])
        if place.agent is not None:
            place.agent.look()
        self._all().find(header["box"])
        reply({}, b"")

    def do_connect(self, header: Header, body: bytes, reply: Reply) -> None:
        call = partial(ports.connect, self._passage, header["id"], header["port"], header["timeout_s"])
        self._operate(header, reply, call)

    def do_prove(self, header: Header, body: bytes, reply: Reply) -> None:
        self._operate(header, reply, partial(gates.prove, header["canaries"]))

    def do_listen(self, header: Header, body: bytes, reply: Reply) -> None:
        call = partial(gates.listen, self._passage, header["id"], header["port"], header["canaries"])
        self._operate(header, reply, call)

    def do_diff(self, header: Header, body: bytes, reply: Reply) -> None:
        place = self._all().find(header["box"])
        scratch = f"{self._all().base}/diff{self._all().number()}"
        plain = isinstance(place, Plain)
        above, below = ("work", [place.tree]) if isinstance(place, Plain) else (place.layers.upper, place.layers.below)
        opened: list[int] = []

        def tidy() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            for fd in opened:
                os.close(fd)

        try:
            opened.append(_above(place.changes, above))
            for layer in below:
                opened.append(os.open(".", changes.FOLDER, dir_fd=layer))
            os.mkdir(scratch)
            upper, *sealed, lower = opened
            call = partial(changes.difference, scratch, upper, lower, everything=plain, sealed=sealed)
            self._operate(header, reply, call, cap=DIFF_CAP, inside=False, tidy=tidy)
        except BaseException:
            tidy()
            raise

    def _operate(
        self,
        header: Header,
        reply: Reply,
        call: Callable[[], None],
        *,
        cap: int = 4096,
        inside: bool = True,
        tidy: Callable[[], None] = _nothing,
    ) -> None:
        """Run one of our own functions in a child; what it writes to its output is the answer."""
        place = self._all().find(header["box"])

        def answer(job: Job) -> None:
            if place.dead:
                raise gone(place, effect="unknown")
            if job.fault is not None:
                raise Fault(**{"effect": "none", **job.fault})
            if job.output.keep.seen > cap:
                raise Fault("workload.too_large", f"more than {cap} bytes", attributable="model", effect="none")
            if job.exit_code != 0:
                raise Fault("infra.operation_failed", job.errors.keep.value().decode(errors="replace").strip())
            reply({}, job.output.keep.value())

        def done(job: Job) -> None:
            place.jobs.discard(job)
            tidy()
            guarded(lambda: answer(job), lambda fault: reply({"fault": fault}, b""))

        place.jobs.add(Job(self._loop, place.door, Plan(call, inside), done, timeout=OP_DEADLINE, cap=cap + 1))


def _above(folder: int, name: str) -> int:
    """What the workload wrote; without isolation it can take the directory itself away."""
    try:
        return os.open(name, changes.FOLDER, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        text = f"the work directory is gone: {error.strerror}"
        raise Fault("sandbox.broken_by_workload", text, attributable="model", effect="none") from None
