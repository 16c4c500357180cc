"""Directories that their own mode closes to us: without root's powers they can be neither searched nor emptied."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


def open_one(folder: str) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        with suppress(PermissionError):  # not ours
            os.chmod(folder, mode | 0o700)


def open_all(folder: str) -> None:
    """It and all below, before they are removed."""
    open_one(folder)
    for above, below, _ in os.walk(folder):
        for name in below:
            path = os.path.join(above, name)
            if not os.path.islink(path):
                open_one(path)
