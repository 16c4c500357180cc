"""The spawner's event loop: requests in, replies out, and everything gone when the driver is gone."""

import functools
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import changes, files, kernel, roots
from .box import Box, Making
from .cgroups import MIB, Cgroups
from .enter import Plan
from .job import Job
from .loop import Loop
from .wire import Frames, pack

Header = dict[str, Any]
OP_DEADLINE = 60.0


class Fault(Exception):
    def __init__(self, code: str, message: str, **more: str):
        super().__init__(message)
        self.record = {"code": code, "message": message, **more}


class Server:
    def __init__(self, wire: socket.socket, driver: int):
        self.loop = Loop()
        self._wire, self._frames, self._outbox = wire, Frames(), bytearray()
        self._boxes: dict[str, Box] = {}
        self._count = 0
        wire.setblocking(False)
        self.loop.watch(wire.fileno(), self._traffic)
        # A forked child of the driver may keep the socket open after the driver's death: watch the driver too.
        self._driver = os.pidfd_open(driver)
        self.loop.watch(self._driver, self.shut_down)

    # -- messages

    def _traffic(self) -> None:
        self._flush()
        try:
            data = self._wire.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.shut_down()
            return
        for header, body in self._frames.feed(data):
            self._handle(header, body)

    def _handle(self, header: Header, body: bytes) -> None:
        try:
            getattr(self, f"do_{header['op']}")(header, body)
        except Fault as fault:
            self.reply(header, {"fault": fault.record})
        except roots.Escaped as error:
            message = f"the sandbox's own files stand in the way of {error}"
            fault = {"code": "sandbox.broken_by_workload", "message": message, "attributable": "model"}
            self.reply(header, {"fault": fault})
        except OSError as error:
            self.reply(header, {"fault": {"code": "infra.spawner", "message": str(error)}})

    def reply(self, request: Header, header: Header, body: bytes = b"") -> None:
        self._outbox += pack({"id": request["id"], **header}, body)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outbox:
                del self._outbox[: self._wire.send(memoryview(self._outbox)[: 1 << 20])]
        except BlockingIOError:
            pass
        except OSError:
            self._outbox.clear()
        self.loop.watch(self._wire.fileno(), self._traffic, write=bool(self._outbox))

    # -- requests

    def do_hello(self, header: Header, body: bytes) -> None:
        self.base = header["base"]
        self._bwrap, self._userxattr = header["bwrap"], not header["root"]
        _private_mounts(self.base, header["root"])
        self._cgroups = Cgroups(os.path.basename(self.base))
        os.mkdir(f"{self.base}/skeleton")
        os.mkdir(f"{self.base}/empty")
        roots.build_skeleton(Path(self.base, "skeleton"))
        self.reply(header, {"cgroups": self._cgroups.versions(), "pid": os.getpid()})

    def do_create(self, header: Header, body: bytes) -> None:
        self._count += 1
        name = f"{self._count}"
        making = self._making(name, header)
        group = self._cgroups.group(name)
        group.limit((header["memory_mb"] + header["disk_mb"]) * MIB, header["pids"], header["cpus"])
        box = Box(self.loop, making, f"{self.base}/{name}", group, bwrap=self._bwrap, userxattr=self._userxattr)
        self._boxes[name] = box

        def ready(fault: Header | None) -> None:
            if fault is None:
                self.reply(header, {"box": name})
            else:
                box.close(lambda: self._boxes.pop(name, None) and self.reply(header, {"fault": fault}))

        try:
            box.start(ready)
        except (OSError, roots.Escaped):
            self._boxes.pop(name)
            box.close(lambda: None)
            raise

    def _making(self, name: str, header: Header) -> Making:
        image, workdir = header["image"], header["workdir"]
        root = f"{self.base}/skeleton" if image == "host" else image
        systems = [(d, _directory(f"/{d}")) for d in roots.system_directories()] if image == "host" else []
        tree = header["tree"]
        if not tree:
            inside = root + "/" + workdir.strip("/")
            tree = inside if os.path.isdir(inside) else f"{self.base}/empty"
        return Making(
            id=name,
            workdir=workdir,
            root=_directory(root),
            systems=systems,
            tree=_directory(tree),
            binds=[(source, target) for source, target in header["binds"]],
            disk=header["disk_mb"] * MIB,
            memory=header["memory_mb"] * MIB,
            pids=header["pids"],
            cpus=header["cpus"],
            network=header["network"],
        )

    def do_exec(self, header: Header, body: bytes) -> None:
        script = header["script_bytes"]
        plan = Plan(
            cwd=header["cwd"],
            env=header["env"],
            script=body[:script] if script >= 0 else None,
            argv=header.get("argv"),
            stdin=_stdin(body[max(script, 0) :]),
        )
        merge, cap = header["merge"], header["max_bytes"]
        self._run(header, plan, _any_result, timeout=header["limit_s"], cap=cap, merge=merge)

    def do_read(self, header: Header, body: bytes) -> None:
        self._operate(header, lambda: files.read(header["path"], header["max_bytes"]), cap=header["max_bytes"] + 1)

    def do_list(self, header: Header, body: bytes) -> None:
        self._operate(header, lambda: files.list_names(header["path"]), cap=1 << 26)

    def do_write(self, header: Header, body: bytes) -> None:
        self._operate(header, lambda: files.write(header["path"], header["mode"]), body)

    def do_diff(self, header: Header, body: bytes) -> None:
        box = self._box(header)
        self._count += 1
        scratch = f"{self.base}/diff{self._count}"
        os.mkdir(scratch)
        upper = os.open("work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=box.changes)
        lower = _directory(f"/proc/self/fd/{box.making.tree}", os.O_RDONLY)

        def tidy() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(upper)
            os.close(lower)

        call = functools.partial(changes.difference, scratch, upper, lower, everything=False)
        self._operate(header, call, cap=1 << 26, inside=False, tidy=tidy)

    def _operate(
        self,
        header: Header,
        call: Callable[[], None],
        data: bytes = b"",
        cap: int = 4096,
        inside: bool = True,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        plan = Plan(cwd=header["cwd"], call=call, stdin=_stdin(data), limited=False, inside=inside)
        self._run(header, plan, _no_result, timeout=OP_DEADLINE, cap=cap, tidy=tidy)

    def _run(
        self,
        header: Header,
        plan: Plan,
        check: Callable[[Job, int], None],
        *,
        timeout: float,
        cap: int,
        merge: bool = False,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        box = self._box(header)

        def done(job: Job) -> None:
            box.jobs.discard(job)
            tidy()
            try:
                if box.dead:
                    raise Fault(**_gone(box, effect="unknown"))
                check(job, cap)
                if job.fault is not None:
                    raise Fault(**{"effect": "none", **job.fault})
                parts = [stream.keep.value() for stream in job.streams]
                self.reply(header, {**job.result, "kept": [len(part) for part in parts]}, b"".join(parts))
            except Fault as fault:
                self.reply(header, {"fault": fault.record})

        try:
            box.jobs.add(Job(self.loop, box, plan, done, timeout=timeout, cap=cap, merge=merge))
        finally:
            os.close(plan.stdin)

    def _box(self, header: Header) -> Box:
        box = self._boxes.get(header["box"])
        if box is None:
            raise Fault("client.closed", "this sandbox is closed", attributable="client", effect="none")
        if box.dead:
            raise Fault(**_gone(box, effect="none"))
        return box

    def do_close(self, header: Header, body: bytes) -> None:
        box = self._boxes.pop(header["box"], None)
        if box is None:
            self.reply(header, {})
        else:
            box.close(lambda: self.reply(header, {}))

    # -- the end

    def shut_down(self) -> None:
        self.loop.unwatch(self._wire.fileno())
        self.loop.unwatch(self._driver)
        left = set(self._boxes)
        self._boxes, boxes = {}, self._boxes

        def one_less(name: str) -> None:
            left.discard(name)
            if not left:
                self.loop.stop()

        for name, box in boxes.items():
            box.close(lambda name=name: one_less(name))  # type: ignore[misc]
        if not left:
            self.loop.stop()

    def clean(self) -> None:
        self._cgroups.remove()
        kernel.umount(self.base)
        shutil.rmtree(self.base, ignore_errors=True)


def _any_result(job: Job, cap: int) -> None:
    """A command may end as it likes."""


def _no_result(job: Job, cap: int) -> None:
    """An operation of ours must have come to its end and said all of it."""
    if job.fault is not None:
        return
    if job.result["exit_code"] != 0 or job.streams[0].keep.seen > cap:
        said = job.streams[-1].keep.value().decode(errors="replace").strip()
        reason = job.result["reason"] if job.result["exit_code"] else "too much output"
        raise Fault("infra.operation_failed", f"{reason} {said}".strip())


def _gone(box: Box, effect: str) -> dict[str, str]:
    message = f"the sandbox is gone: {box.dead}"
    return {"code": "infra.sandbox_lost", "message": message, "attributable": "infra", "effect": effect}


def _directory(path: str, how: int = os.O_PATH) -> int:
    try:
        return os.open(path, how | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Fault("client.bad_spec", f"{path}: {error.strerror}", attributable="client", effect="none") from error


def _stdin(data: bytes) -> int:
    """A whole input at once: no pipe to feed, no deadlock with a program that does not read."""
    if not data:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _private_mounts(base: str, root: bool) -> None:
    """A mount namespace of our own, where nothing that we mount is seen by or outlives anybody."""
    if root:
        os.setgroups([])
        kernel.unshare(kernel.CLONE_NEWNS)
    else:
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NODEV | kernel.MS_NOSUID, "size=1g,mode=0700")


def main() -> None:
    """Arguments: the socket's descriptor and the driver's pid."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    kernel.hide_memory()
    wire = socket.socket(fileno=int(sys.argv[1]))
    wire.set_inheritable(False)
    server = Server(wire, int(sys.argv[2]))
    server.loop.run()
    server.clean()
