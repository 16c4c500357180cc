"""The pages about the sandbox service are executed: all blocks of a page in one shell, in order."""

import shutil
from pathlib import Path

import pytest

from pages import MARK, Step, check, play, steps

PAGES = ("env.md", "operate.md", "network.md")


def command(step: Step) -> str:
    if not step.python:
        return step.code
    what = f"cat >{step.file}" if step.file else "python3 -"
    return f"{what} <<'END OF PROGRAM'\n{step.code}END OF PROGRAM"


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_shows_is_what_runs(page: str, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None or shutil.which("curl") is None:
        pytest.skip("bubblewrap or curl is not installed")
    wanted = steps(page)
    script = "".join(f"{command(step)}\nprintf '\\n{MARK}\\n'\n" for step in wanted)
    printed = play(["bash", "-c", script], tmp_path, timeout_s=60)
    check(wanted, printed.split(f"\n{MARK}\n"))
