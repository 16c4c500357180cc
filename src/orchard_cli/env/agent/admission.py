"""What a member of a tar may do where it is unpacked: nothing outside. What comes in is hostile."""

from __future__ import annotations

import os

from .kinds import Any

LONGEST = 4000  # bytes of a path that the kernel still takes


class Refused(ValueError):
    """What is wrong with a member."""


def as_it_is(member: Any, _: str) -> Any:
    """For `TarFile.extraction_filter`: a newer Python would have one of its own."""
    return member


def admit(member: Any, top: str) -> None:
    """Refuse what would be written outside of `top`; the rest becomes ours, and nobody else may write it.

    A link that stands where a link or a file goes gives way to it; one to a directory is followed where it stays below.
    As `tarfile.data_filter` does, which images with an older Python lack, and which long paths get past in some.
    """
    member.name = member.name.lstrip("/")
    if "\0" in member.name + member.linkname:
        raise _bad(member, "has a NUL in its name")
    folder, whole = os.path.dirname(member.name), os.path.join(top, member.name)
    link = member.issym() or member.islnk()
    if not (link or member.isreg() or member.isdir()):
        raise _bad(member, "is a device or a pipe")
    replaced = os.path.islink(whole) and not member.isdir()
    if not _within(top, folder if link or replaced else member.name):
        raise _bad(member, "leads outside")
    if member.islnk() and not _within(top, member.linkname):
        raise _bad(member, "links to a place outside")
    if replaced or (link and os.path.lexists(whole) and not os.path.isdir(whole)):
        os.unlink(whole)
    mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
    member.mode = mode if mode & 0o100 else mode & 0o666
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""


def _within(top: str, path: str) -> bool:
    """Where links and all lead. A path that is too long for the kernel is not followed to its end."""
    whole = os.path.realpath(os.path.join(top, path))
    return len(os.fsencode(whole)) < LONGEST and os.path.commonpath([top, whole]) == top


def _bad(member: Any, why: str) -> Refused:
    return Refused(f"{member.name[:200]} {why}")
