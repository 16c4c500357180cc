"""The agent as one file that any Python runs: `pack()` gives its bytes. Used outside of sandboxes only."""

import importlib.util
import io
import marshal
import zipfile
from functools import cache
from pathlib import Path

START = "from agent.__main__ import main\nmain()\n"


@cache
def pack() -> bytes:
    """A zip archive of this folder, the same bytes for the same sources; `python3 -I -S -E FILE` starts it.

    It holds each file compiled for our own version of Python too; another version takes the source instead.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(Path(__file__).parent.glob("*.py")):
            if path.name != "pack.py":
                archive.writestr(zipfile.ZipInfo(f"agent/{path.name}"), path.read_bytes())
                archive.writestr(zipfile.ZipInfo(f"agent/{path.name}c"), _compiled(path))
        archive.writestr(zipfile.ZipInfo("__main__.py"), START)
    return file.getvalue()


def _compiled(path: Path) -> bytes:
    name = f"agent/{path.name}"
    code = marshal.dumps(compile(path.read_bytes(), name, "exec", dont_inherit=True, optimize=0))
    unchecked = (1).to_bytes(4, "little") + bytes(8)  # valid whatever the time of the source
    return importlib.util.MAGIC_NUMBER + unchecked + code
