"""What each request of the driver means."""

import os
import shutil
from collections.abc import Callable
from functools import partial

from . import changes, files, gates, ports
from .enter import Plan
from .faults import Fault, Header, guarded
from .job import Job
from .loop import Loop
from .places import Places, gone, null
from .plain import Plain, command_mark
from .watch import Place

Reply = Callable[[Header, bytes], None]
OP_DEADLINE = 120.0  # seconds for an operation of our own
DIFF_CAP, LIST_CAP = 1 << 27, 1 << 26


def _nothing() -> None:
    return None


class Requests:
    """One method for each kind of request; each ends in one call of `reply(header, body)`."""

    def __init__(self, loop: Loop, passage: int = -1):
        self._loop, self._passage = loop, passage
        self.places: Places | None = None

    def handle(self, header: Header, body: bytes, reply: Reply) -> None:
        call = getattr(self, f"do_{header['op']}")
        guarded(lambda: call(header, body, reply), lambda fault: reply({"fault": fault}, b""))

    def _all(self) -> Places:
        assert self.places is not None, "the first request is hello"
        return self.places

    def do_hello(self, header: Header, body: bytes, reply: Reply) -> None:
        self.places = Places(self._loop, header)
        reply({"cgroups": self.places.cgroups.versions()}, b"")

    def do_create(self, header: Header, body: bytes, reply: Reply) -> None:
        def done(name: str, place: Place) -> None:
            env = place.env() if isinstance(place, Plain) else {}
            reply({"box": name, "workdir": place.workdir, "env": env}, b"")

        self._all().create(header, done, lambda fault: reply({"fault": fault}, b""))

    def do_close(self, header: Header, body: bytes, reply: Reply) -> None:
        self._all().close(header["box"], lambda: reply({}, b""))

    def do_exec(self, header: Header, body: bytes, reply: Reply) -> None:
        place = self._all().find(header["box"])
        script, mark = header["script_bytes"], 0
        if not place.door.marks:
            mark = self._all().number()
            header["env"] |= command_mark(mark)
        plan = Plan(
            cwd=header["cwd"],
            env=header["env"],
            mark=mark,
            script=body[:script] if script >= 0 else None,
            argv=header["argv"],
            stdin=_stdin(body[max(script, 0) :]),
        )
        limits = {"timeout": header["limit_s"], "cap": header["max_bytes"], "merge": header["merge"]}
        self._run(place, plan, reply, _any_end, **limits)
        self._all().watch.wake()

    def do_read(self, header: Header, body: bytes, reply: Reply) -> None:
        cap = header["max_bytes"]
        self._operate(header, reply, partial(files.read, header["path"], cap), cap=cap + 1)

    def do_list(self, header: Header, body: bytes, reply: Reply) -> None:
        self._operate(header, reply, partial(files.list_names, header["path"]), cap=LIST_CAP)

    def do_write(self, header: Header, body: bytes, reply: Reply) -> None:
        self._operate(header, reply, partial(files.write, header["path"], header["mode"]), body)

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
        tree = place.tree if isinstance(place, Plain) else place.making.tree
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        upper = os.open("work", flags, dir_fd=place.changes)
        lower = os.open(".", flags, dir_fd=tree)
        os.mkdir(scratch)

        def tidy() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(upper)
            os.close(lower)

        call = partial(changes.difference, scratch, upper, lower, everything=plain)
        self._operate(header, reply, call, cap=DIFF_CAP, inside=False, tidy=tidy)

    def _operate(
        self,
        header: Header,
        reply: Reply,
        call: Callable[[], None],
        data: bytes = b"",
        *,
        cap: int = 4096,
        inside: bool = True,
        tidy: Callable[[], None] = _nothing,
    ) -> None:
        """Run one of our own functions in a child."""
        place = self._all().find(header["box"])
        plan = Plan(cwd=place.workdir, call=call, stdin=_stdin(data), limited=False, inside=inside)
        self._run(place, plan, reply, _complete, timeout=OP_DEADLINE, cap=cap, tidy=tidy)

    def _run(
        self,
        place: Place,
        plan: Plan,
        reply: Reply,
        check: Callable[[Job, int], None],
        *,
        timeout: float,
        cap: int,
        merge: bool = False,
        tidy: Callable[[], None] = _nothing,
    ) -> None:
        def answer(job: Job) -> None:
            if place.dead:
                raise gone(place, effect="unknown")
            if job.fault is not None:
                raise Fault(**{"effect": "none", **job.fault})
            check(job, cap)
            parts = [stream.keep.value() for stream in job.streams]
            reply({**job.result, "kept": [len(part) for part in parts]}, b"".join(parts))

        def done(job: Job) -> None:
            place.jobs.discard(job)
            tidy()
            guarded(lambda: answer(job), lambda fault: reply({"fault": fault}, b""))

        try:
            place.jobs.add(Job(self._loop, place, plan, done, timeout=timeout, cap=cap, merge=merge))
        finally:
            os.close(plan.stdin)


def _any_end(job: Job, cap: int) -> None:
    """A command may end as it likes."""


def _complete(job: Job, cap: int) -> None:
    """An operation of ours must have come to its end and said all of it."""
    if job.streams[0].keep.seen > cap:
        raise Fault("workload.too_large", f"more than {cap} bytes", attributable="model", effect="none")
    if job.result["exit_code"] != 0:
        said = job.streams[-1].keep.value().decode(errors="replace").strip()
        raise Fault("infra.operation_failed", f"{job.result['reason']} {said}".strip())


def _stdin(data: bytes) -> int:
    """A whole input at once: no pipe to feed, no deadlock with a program that does not read."""
    if not data:
        return null()
    fd = os.memfd_create("stdin")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
