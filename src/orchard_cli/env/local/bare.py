"""A Python of its own that loads what it is told of ours: without the package's `__init__`, standard library alone."""

import sys
from pathlib import Path

BOOT = """
import sys
package = type(sys)("env")
package.__path__ = [sys.argv.pop(1)]
sys.modules["env"] = package
"""


def bare(code: str, *words: str) -> list[str]:
    """What to run: `code` may import from `env.…`, and finds `words` as its arguments."""
    return [sys.executable, "-I", "-S", "-E", "-c", BOOT + code, str(Path(__file__).parents[1]), *words]
