"""What changed in a sandbox's work directory, as git would say it.

Works on an overlay's upper directory (cost: what changed) or on two whole trees. Both may be hostile: every
step goes through a directory descriptor and follows no link. Contents go into a throw-away git store by
`fast-import` and come out of `git diff`; no file of the sandbox is ever given to git by its path, so neither
attributes, nor configuration, nor links in the tree mean anything.
"""

import codecs
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

from . import kernel
from .enter import Refused

CHUNK = 1 << 20
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST = 256 << 20  # bytes of changed files, old and new together
GIT_ENV = {
    **{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"},
    **{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"},
}
IMPORT = ("git", "-c", "core.compression=0", "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet")
DIFF = "git diff --binary --no-renames --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/ old new"


def ignored(name: bytes, is_dir: bool) -> bool:
    return name in (b".git", b"__pycache__") or (name.endswith(b".pyc") and not is_dir)


class Changes:
    """Collects contents as numbered blobs, then writes two commits, `old` and `new`."""

    def __init__(self, out: int, *, everything: bool):
        self._out, self._everything = out, everything
        self._old: list[bytes] = []
        self._new: list[bytes] = []
        self._count = self._bytes = 0
        self.binary: list[bytes] = []  # paths whose contents are no text in UTF-8

    def walk(self, uppers: Sequence[int], lower: int, prefix: bytes = b"", *, opaque: bool = False) -> None:
        """Compare open directories; `lower` may be -1. Without `opaque`, what no upper one has is unchanged."""
        names = {os.fsencode(name) for upper in uppers for name in os.listdir(upper)}
        if lower >= 0 and (opaque or self._everything):
            names |= set(map(os.fsencode, os.listdir(lower)))
        for name in sorted(names):
            old = _lstat(name, lower)
            upper, new = next(((at, found) for at in uppers if (found := _lstat(name, at))), (-1, None))
            if new is not None and stat.S_ISCHR(new.st_mode) and new.st_rdev == 0:
                new = None  # the overlay's mark for a deleted name
            if not (self._everything and _same(old, new)):
                above = uppers if _is_dir(new) else (upper,)
                self._entry(prefix, name, (lower, old), (above, new), opaque)

    def _entry(
        self,
        prefix: bytes,
        name: bytes,
        before: tuple[int, os.stat_result | None],
        after: tuple[Sequence[int], os.stat_result | None],
        opaque: bool,
    ) -> None:
        (lower, old), (uppers, new) = before, after
        path = prefix + name
        was_dir, is_dir = _is_dir(old), _is_dir(new)
        if old is not None and not was_dir and not ignored(name, False):
            self._take(self._old, path, lower, name, old)
        if new is not None and not is_dir and not ignored(name, False):
            self._take(self._new, path, uppers[0], name, new)
        if ignored(name, True) or not (was_dir or is_dir):
            return
        with _merged(name, uppers if is_dir else ()) as (ups, cut), _directory(name, lower if was_dir else -1) as low:
            if not ups:
                self._removed(low, path + b"/")
            else:
                self.walk(ups, low, path + b"/", opaque=opaque or cut)

    def _removed(self, lower: int, prefix: bytes) -> None:
        for name in sorted(map(os.fsencode, os.listdir(lower))):
            self._entry(prefix, name, (lower, _lstat(name, lower)), ((), None), True)

    def _take(self, side: list[bytes], path: bytes, folder: int, name: bytes, found: os.stat_result) -> None:
        """Put one file or link into the store; anything else (FIFO, socket) is no content and left out."""
        if stat.S_ISLNK(found.st_mode):
            with suppress(OSError):
                self._link(side, path, os.readlink(name, dir_fd=folder))
            return
        if not stat.S_ISREG(found.st_mode):
            return
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return  # changed under our hands
        try:
            size = os.fstat(fd).st_size
            self._bytes += size
            if self._bytes > MOST:
                message = f"more than {MOST >> 20} MiB of changed files"
                raise Refused("workload.diff_too_large", message, "model")
            self._stream(side, path, b"100755" if found.st_mode & 0o100 else b"100644", fd, size)
        finally:
            os.close(fd)

    def _stream(self, side: list[bytes], path: bytes, mode: bytes, fd: int, size: int) -> None:
        self._head(side, path, mode, size)
        decoder, text, left = codecs.getincrementaldecoder("utf-8")(), True, size
        while left:
            # A file that shrinks meanwhile is filled up: the announced length must be kept.
            data = os.read(fd, min(CHUNK, left)) or bytes(min(CHUNK, left))
            left -= len(data)
            try:
                if text:
                    decoder.decode(data, final=not left)
            except UnicodeDecodeError:
                text = False
            self._put(data)
        self._put(b"\n")
        if not text:
            self.binary.append(path)

    def _link(self, side: list[bytes], path: bytes, target: bytes) -> None:
        if target.decode(errors="ignore").encode() != target:  # git writes it as text, whatever it is
            raise Refused("workload.diff_not_text", f"{path!r} is a link to a name that is not UTF-8", "model")
        self._head(side, path, b"120000", len(target))
        self._put(target + b"\n")

    def _head(self, side: list[bytes], path: bytes, mode: bytes, size: int) -> None:
        self._count += 1
        side.append(b"M %s :%d %s\n" % (mode, self._count, quoted(path)))
        self._put(b"blob\nmark :%d\ndata %d\n" % (self._count, size))

    def finish(self) -> None:
        for name, side in ((b"old", self._old), (b"new", self._new)):
            self._put(b"commit refs/heads/%s\ncommitter o <o> 0 +0000\ndata 0\ndeleteall\n" % name + b"".join(side))
        self._put(b"done\n")

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]


def quoted(path: bytes) -> bytes:
    """A path as git writes it between quotes."""
    plain = set(range(0x20, 0x7F)) - {0x22, 0x5C}
    return b'"' + b"".join(bytes((c,)) if c in plain else b"\\%03o" % c for c in path) + b'"'


def difference(scratch: str, upper: int, lower: int, *, everything: bool, sealed: Sequence[int] = ()) -> None:
    """Write the diff to stdout, in a child of its own. `scratch`: empty, to be filled; `sealed`: between the two."""
    for name in ("objects", "refs", "info"):
        os.mkdir(f"{scratch}/{name}")
    with open(f"{scratch}/HEAD", "w") as head:
        head.write("ref: refs/heads/none\n")
    read, out = os.pipe2(os.O_CLOEXEC)
    importer = _fork_git(scratch, IMPORT, read)
    os.close(read)
    changes = Changes(out, everything=everything)
    try:
        changes.walk([upper, *sealed], lower)
        changes.finish()
    except BaseException:
        os.kill(importer, 9)  # it would go on writing where all is about to be cleared away
        os.waitpid(importer, 0)
        raise
    os.close(out)
    _wait(importer)
    with open(f"{scratch}/info/attributes", "wb") as attributes:
        for path in changes.binary:
            escaped = b"".join(b"\\" + bytes((c,)) if c in b"*?[\\" else bytes((c,)) for c in path)
            attributes.write(quoted(b"/" + escaped) + b" -diff\n")
    _become_git(scratch, DIFF.split())


def _fork_git(scratch: str, argv: Sequence[str], stdin: int) -> int:
    if pid := os.fork():
        return pid
    try:
        os.dup2(stdin, 0)
        os.dup2(2, 1)
        _become_git(scratch, argv)
    finally:
        os._exit(127)


def _become_git(scratch: str, argv: Sequence[str]) -> NoReturn:
    os.chdir(scratch)
    kernel.drop_privileges()
    os.execvpe("git", list(argv), {**GIT_ENV, "GIT_DIR": scratch})


def _wait(pid: int) -> None:
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise Refused("infra.git_failed", f"git ended with {code}; is it installed?", "infra")


def _lstat(name: bytes, folder: int) -> os.stat_result | None:
    with suppress(OSError):
        return os.lstat(name, dir_fd=folder) if folder >= 0 else None
    return None


def _is_dir(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISDIR(found.st_mode)


def _same(old: os.stat_result | None, new: os.stat_result | None) -> bool:
    if old is None or new is None or stat.S_ISDIR(old.st_mode) or stat.S_ISDIR(new.st_mode):
        return False
    return (old.st_mode, old.st_size, old.st_mtime_ns) == (new.st_mode, new.st_size, new.st_mtime_ns)


@contextmanager
def _directory(name: bytes, folder: int) -> Iterator[int]:
    """Open a directory below another one, without following; -1 stands for none on both sides."""
    fd = os.open(name, FOLDER, dir_fd=folder) if folder >= 0 else -1
    try:
        yield fd
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def _merged(name: bytes, uppers: Sequence[int]) -> Iterator[tuple[list[int], bool]]:
    """A directory in each layer that shows through, the topmost first; whether nothing below these does."""
    with ExitStack() as stack:
        found: list[int] = []
        for upper in uppers:
            entry = _lstat(name, upper)
            if entry is not None:
                if _is_dir(entry):
                    found.append(stack.enter_context(_directory(name, upper)))
                if not _is_dir(entry) or _opaque(found[-1]):
                    yield found, True
                    return
        yield found, False


def _opaque(folder: int) -> bool:
    for name in ("trusted.overlay.opaque", "user.overlay.opaque"):
        with suppress(OSError):
            if os.getxattr(folder, name) == b"y":
                return True
    return False
