"""What leads out of contained sandboxes: the same as out of others, over a relay inside that the workload may kill."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.network.network import Network
from orchard_cli.env.network.ways import MODEL_PORT, PROXY_PORT
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import settled
from ..network.conftest import FAR, Names, Site, authority, names, site
from ..network.test_sandboxed import (
    PYTHON,
    endpoint,
    fetch,
    test_a_closed_sandbox_takes_no_rules,
    test_a_fork_has_a_way_of_its_own,
    test_a_sandbox_without_network_reaches_its_model,
    test_https_with_a_real_client,
    test_no_way_but_the_proxy,
    test_rules_change_while_it_runs,
    test_the_key_is_nowhere_inside,
    test_the_proxy_leads_neither_home_nor_to_neighbours,
    test_what_a_rule_names_is_reached_and_nothing_else,
)
from .test_contained import traces

__all__ = [  # the fixtures, and tests that run here with the `envs` of this file
    "authority",
    "endpoint",
    "names",
    "site",
    "test_a_closed_sandbox_takes_no_rules",
    "test_a_fork_has_a_way_of_its_own",
    "test_a_sandbox_without_network_reaches_its_model",
    "test_https_with_a_real_client",
    "test_no_way_but_the_proxy",
    "test_rules_change_while_it_runs",
    "test_the_key_is_nowhere_inside",
    "test_the_proxy_leads_neither_home_nor_to_neighbours",
    "test_what_a_rule_names_is_reached_and_nothing_else",
]
TIERS = ("container", "gvisor")
Opens = Callable[..., ContainedEnv]


@pytest.fixture(params=TIERS)
def envs(request: pytest.FixtureRequest, names: Names) -> Iterator[Opens]:
    """`envs(network, *allow)`; names are looked up in `names`."""
    opened: list[ContainedEnv] = []

    def make(network: str, *allow: str) -> ContainedEnv:
        try:
            env = contained(request.param, network, allow=allow)
        except ConfigError as error:
            pytest.skip(str(error))
        opened.append(env)
        env._exits.network.close()  # the one of the proof
        env._exits._network = Network(resolve=names)
        return env

    yield make
    for env in opened:
        network = env._exits.network
        env.close()
        assert not network.faults
    assert settled(doors, []) == []


def doors() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("orchard-door")]


RELAYS = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid(): continue  # our own words are among our arguments
    try:
        words, stat = open(f"/proc/{pid}/cmdline").read(), open(f"/proc/{pid}/stat").read()
    except OSError: continue
    if "agent.pyz" in words and stat.rpartition(") ")[2].split()[1] == "1":
        os.kill(int(pid), 9)
        print(pid)
"""


def test_a_way_that_the_workload_has_killed_comes_back(envs: Opens, endpoint: ModelEndpoint, site: Site) -> None:
    with envs("allowlist", f"{FAR}:{site.port}").open(Spec(model=endpoint)) as sandbox:
        assert len(sandbox.exec([*PYTHON, RELAYS]).stdout.split()) == 2
        for url in (f"http://{FAR}:{site.port}/", f"http://127.0.0.1:{MODEL_PORT}/v1/models"):
            assert settled(lambda url=url: fetch(sandbox, url)[0], 200) == 200


def test_many_connections_at_once_are_carried_and_more_than_that_are_refused(
    envs: Opens, endpoint: ModelEndpoint
) -> None:
    script = f"""
import socket, http.client, time, concurrent.futures as f
idle = [socket.create_connection(("127.0.0.1", {MODEL_PORT})) for _ in range(40)]
def ended(s):
    s.setblocking(False)
    try: return s.recv(1) == b""
    except BlockingIOError: return False
    except ConnectionError: return True
for _ in range(100):
    time.sleep(0.05)
    if (gone := sum(map(ended, idle))) >= 8: break
[s.close() for s in idle]
def ask(_):
    c = http.client.HTTPConnection("127.0.0.1", {MODEL_PORT}, timeout=30)
    body = b"x" * 200_000
    c.request("POST", "/v1/chat/completions", body)
    return len(c.getresponse().read()) > len(body)
time.sleep(1)
with f.ThreadPoolExecutor(16) as pool: print(gone, sum(pool.map(ask, range(48))))
"""
    with envs("none").open(Spec(model=endpoint)) as sandbox:
        sandbox.write("ask.py", script.encode())
        result = sandbox.exec(["python3", "ask.py"], timeout_s=120)
        assert result.stdout == b"8 48\n", (result.stdout, result.stderr[-500:])


def test_nothing_is_left_of_a_sandbox_with_ways(envs: Opens, endpoint: ModelEndpoint) -> None:
    env = envs("allowlist", "x.test")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        with env.open(Spec(model=endpoint)) as sandbox:
            name = sandbox.id.partition("-")[2]
            assert len(doors()) == 2
    assert settled(lambda: traces(name), []) == [] and doors() == []
    assert settled(lambda: len(list(Path("/proc/self/fd").iterdir())), descriptors) == descriptors


def test_a_sandbox_that_reaches_what_it_must_not_does_not_open(envs: Opens, endpoint: ModelEndpoint) -> None:
    env = envs("allowlist", "x.test")
    env._exits._canaries.all = (("tcp", "127.0.0.1", PROXY_PORT), *env._exits._canaries.all)
    with pytest.raises(SandboxError, match="reaches 127") as caught:  # its own proxy, when the second gate is opened
        env.open(Spec(model=endpoint))
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("isolation_not_proven", "infra")
    assert doors() == []


@pytest.mark.parametrize("tier", TIERS)
def test_the_machines_own_network_is_refused(tier: str) -> None:
    with pytest.raises(ConfigError, match="never has the machine's own network"):
        open_env(schema.Env(isolation=tier, network="host"))  # type: ignore[arg-type]


@pytest.mark.parametrize("tier", TIERS)
def test_settings_reach_the_proxy_and_its_log(tier: str, tmp_path: Path) -> None:
    log = tmp_path / "egress.jsonl"
    settings = schema.Env(isolation=tier, network="allowlist", allow=["x.test"], network_log=str(log))  # type: ignore[arg-type]
    try:
        env = open_env(settings)
    except ConfigError as error:
        pytest.skip(str(error))
    with env, socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        with env.open(Spec()) as sandbox:
            assert fetch(sandbox, "http://secret.evil.test/")[0] == 403
            assert fetch(sandbox, f"http://localhost:{port.getsockname()[1]}/", "--noproxy", "")[0] == 403
    assert log.read_text().count('"refused"') == 2
