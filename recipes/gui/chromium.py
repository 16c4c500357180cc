"""Which Chromium, and what a sandbox must show so that it and its driver run."""

import os
import shutil
import sys
from functools import cache
from pathlib import Path

from orchard_cli.env.local.binds import python_binds
from orchard_cli.env.sandbox import Bind, Limits, Spec
from orchard_cli.errors import ConfigError, MissingExtra, installed

from .visit import Site

VARIABLE = "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH"
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")  # the lightest first
PLACE = "/opt/orchard"  # of the driver, inside
LIMITS = Limits(memory_mb=2048, pids=512, disk_mb=768)  # measured: 400 MiB and 90 tasks for a small site


def executable() -> Path:
    """The browser: as the variable says, else from PATH. Raises `ConfigError` if there is none."""
    given = os.environ.get(VARIABLE)
    if given and not os.access(given, os.X_OK):
        raise ConfigError(f"{VARIABLE}: {given} is not a program", hint="give the path of a Chromium, or unset it")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise ConfigError(
            "there is no Chromium on this machine",
            hint=f"apt-get install chromium-headless-shell (or chromium), or set {VARIABLE}",
        )
    return Path(found)


@cache
def spec(site: Site) -> Spec:
    """The sandbox of an attempt at `site`: this Python with Playwright, the driver, Chromium, the site's files."""
    if not installed("playwright"):
        raise MissingExtra("browsing", "playwright", "gui")
    browser = executable()
    shown = [*python_binds(Path(sys.executable)), Bind(Path(__file__).parent / "driver", f"{PLACE}/driver")]
    shown += [Bind(folder, place) for place, folder in site.folders]
    if not browser.resolve().is_relative_to("/usr"):
        shown.append(Bind(browser.resolve().parent, str(browser.resolve().parent)))
        browser = browser.resolve()
    return Spec(binds=tuple(shown), env={"CHROMIUM": str(browser), "HOME": "/tmp"}, limits=LIMITS)  # noqa: S108
