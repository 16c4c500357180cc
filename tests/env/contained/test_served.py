"""Contained sandboxes over REST: conformance in a short form, the command that serves them, and what it refuses."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli.commands.env_session import image_of
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.env.service.bench import served
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import settled
from ..network.conftest import FAR, Site, site
from ..test_conformance import (
    test_background_child_returns_immediately,
    test_bytes_that_are_no_text_stay_what_they_are,
    test_changes_are_told_and_carried_over,
    test_closed_is_closed,
    test_death_by_signal_is_told,
    test_fork_is_equal_then_apart,
    test_missing_cwd_is_an_error_and_not_the_root,
    test_output_is_bounded_in_memory_and_counted,
    test_timeout_keeps_container_alive,
    test_what_is_left_running_is_told_and_lives_on,
)
from .test_contained import traces

__all__ = [
    "site",
    # they run here with the `place` and `box` of this file
    "test_background_child_returns_immediately",
    "test_bytes_that_are_no_text_stay_what_they_are",
    "test_changes_are_told_and_carried_over",
    "test_closed_is_closed",
    "test_death_by_signal_is_told",
    "test_fork_is_equal_then_apart",
    "test_missing_cwd_is_an_error_and_not_the_root",
    "test_output_is_bounded_in_memory_and_counted",
    "test_timeout_keeps_container_alive",
    "test_what_is_left_running_is_told_and_lives_on",
]


@pytest.fixture(scope="module", params=["container", "gvisor"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteEnv]:
    try:
        env = contained(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    state = tmp_path_factory.mktemp("served") / "state"
    with env:
        with serving(env, Settings(state, "key")) as url, RemoteEnv(url, "key") as remote:
            yield remote
        assert settled(lambda: traces(f"{env.base.name}-"), []) == []


@pytest.fixture
def box(place: RemoteEnv, tmp_path: Path) -> Iterator[Sandbox]:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("one\n")
    with place.open(Spec(tree=tree)) as opened:
        yield opened


def test_clients_are_told_the_tier(place: RemoteEnv) -> None:
    assert place.describe()["isolation"] in ("gvisor", "container")


def test_a_model_is_given_over_rest(place: RemoteEnv, site: Site) -> None:
    with place.open(Spec(model=ModelEndpoint(f"http://{FAR}:{site.port}/v1"))) as box:
        result = box.exec("curl -sS -m 20 $OPENAI_BASE_URL/chat/completions -d '{}'")
        assert b"/v1/chat/completions" in result.stdout, result.stderr
    assert [seen["path"] for seen in site.seen] == ["/v1/chat/completions"]


def test_the_command_serves_a_tier_by_its_name(place: RemoteEnv, tmp_path: Path) -> None:
    tier = str(place.describe()["isolation"])
    with served(tmp_path, tier) as remote, remote.open(Spec()) as box:
        assert remote.describe()["isolation"] == tier
        assert box.exec("echo served").stdout == b"served\n"


def test_an_image_that_an_engine_holds_may_be_offered_by_tiers_that_know_such() -> None:
    assert image_of("py=python:3.11", held=True) == ("py", "python:3.11")
    for text in ("py=python:3.11", "py", "py="):
        with pytest.raises(ConfigError, match="--image"):
            image_of(text)


def test_fork_with_its_processes(place: RemoteEnv, box: Sandbox) -> None:
    counting = box.start("for i in $(seq 60); do echo $i; sleep 0.05; done")
    if place.describe()["isolation"] == "container" or os.geteuid():
        with pytest.raises(SandboxError) as caught:
            box.fork(processes=True)
        assert caught.value.fault.code == "client.unsupported"
    else:
        with box.fork(processes=True) as twin:
            (copy,) = twin.executions()
            assert copy.wait(60).stdout == counting.wait(60).stdout
            assert [event.type for event in copy.events()][-1] == "exit"
    assert counting.wait(60).stdout.endswith(b"\n59\n60\n")
