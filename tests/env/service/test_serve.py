"""What `orchard env serve` and its neighbours refuse at the start, in two lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchard_cli.env.bench.more import More
from orchard_cli.env.service.bench import measure
from orchard_cli.env.service.doctor import Finding, isolates
from orchard_cli.env.service.live import Terms, granted
from orchard_cli.errors import ConfigError


def orchard(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "orchard_cli", "env", *words]
    environment = {**os.environ, "ORCHARD_ENV_API_KEY": "key", **more}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lease-s", "-4"), ("--lease-s -4", "hint: ")),
        (("--lease-s", "nan"), ("--lease-s nan", "hint: ")),
        (("--lease-s", "0"), ("--lease-s 0", "hint: ")),
        (("--outlive-s", "-4"), ("--outlive-s -4", "hint: ")),
        (("--dead-s", "0"), ("--dead-s 0", "hint: ")),
        (("--model", "http://127.0.0.1:1/v1=NO_SUCH_VARIABLE"), ("NO_SUCH_VARIABLE holds no key", "export")),
        (("--isolation", "foo"), ("env.isolation=foo", "auto, bwrap, process, gvisor, container")),
        (("--database", "mysql://me:secret@db/x"), ("--database", "hint: postgresql://")),
        (("--state", __file__), ("it is a file", "hint: name a folder")),
        (("--state", "/proc/foo"), ("--state /proc/foo", "hint: name a folder")),
    ],
)
def test_a_server_that_cannot_be_is_not_started(tmp_path: Path, words: tuple[str, ...], said: tuple[str, ...]) -> None:
    state = () if "--state" in words else ("--state", str(tmp_path / "state"))
    done = orchard("serve", "--port", "0", *state, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and "secret" not in done.stderr
    assert all(word in done.stderr.replace("\n", " ") for word in said), done.stderr


def test_what_an_operator_grants_is_not_cut() -> None:
    assert granted(900.0) == Terms()
    assert granted(30 * 86_400.0).max_lease_s == granted(30 * 86_400.0).max_lifetime_s == 30 * 86_400.0


def test_less_than_nothing_is_not_measured() -> None:
    for repeat, sandboxes in ((-1, 0), (0, -1)):
        with pytest.raises(ConfigError, match="0 or more"):
            measure(repeat=repeat, sandboxes=sandboxes, note=print)
    for wrong in ({"cycles": -1}, {"soak_minutes": float("nan")}):
        with pytest.raises(ConfigError, match="0 or more"):
            More(**wrong)  # type: ignore[arg-type]


def test_one_tier_that_is_proven_is_enough() -> None:
    missing, found = Finding("bwrap", "missing", ""), Finding("overlayfs", "present", "")
    assert not isolates([missing, found])
    assert isolates([missing, Finding("gvisor", "proven", ""), found])


def test_the_doctor_finds_what_the_server_finds(tmp_path: Path) -> None:
    """Both look where packages install, whatever PATH says."""
    done = orchard("doctor", "--json", PATH=str(tmp_path))
    found = {item["what"]: item["state"] for item in json.loads(done.stdout)}
    assert found["bwrap (env.isolation=bwrap)"] == "proven"
    assert done.returncode == 0
