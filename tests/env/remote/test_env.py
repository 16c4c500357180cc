"""Uploads, leases, lost servers, leaks, and `env=remote` by the settings."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.remote import AsyncEnv, RemoteEnv
from orchard_cli.env.remote.tree import Hashes, pack
from orchard_cli.env.sandbox import Bind, Spec
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings
from orchard_cli.errors import ConfigError, SandboxError

from ..service.conftest import Rest


def ids(rest: Rest) -> set[str]:
    return {item["id"] for item in rest("GET", "/v1/sandboxes").json["items"]}


def test_a_tree_is_packed_again_only_when_it_changed(tmp_path: Path) -> None:
    tree = tmp_path / "t"
    tree.mkdir()
    (tree / "a").write_text("1")
    hashes = Hashes()
    assert hashes.known(tree) == ""
    file, first = hashes.pack(tree)
    file.close()
    assert hashes.known(tree) == first
    (tree / "a").write_text("2")
    assert hashes.known(tree) == ""
    file, second = hashes.pack(tree)
    file.close()
    assert first != second


def test_equal_trees_have_one_hash_wherever_they_lie(tmp_path: Path) -> None:
    import os

    found = []
    for name in ("x", "y"):
        (tmp_path / name / "d").mkdir(parents=True)
        for inside in ("d/b", "a"):
            (tmp_path / name / inside).write_text(inside)
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (1000, 1000))
        with (tmp_path / f"{name}.tar").open("w+b") as file:
            pack(tmp_path / name, file)
        found.append((tmp_path / f"{name}.tar").read_bytes())
    assert found[0] == found[1]


def test_a_tree_is_sent_once(rest: Rest, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a").write_text("only here")
    with RemoteEnv(rest.url, rest.key, share=False) as env:
        for _ in range(3):
            env.open(Spec(tree=tmp_path / "t")).close()
        hash = env.body(Spec(tree=tmp_path / "t")).tree.removeprefix("sha256:")
    newest = rest("GET", "/v1/audit", limit=3 * 3 + 4).json  # a session of this test: three lives, and what it asked
    uploads = [line for line in newest if line["operation"] == "PUT /v1/trees/{hash}"]
    assert len(list(rest.state.glob(f"trees/*/{hash}"))) == 1
    assert [line["status"] for line in uploads] == [201]


def test_a_single_file_cannot_be_sent_and_says_so(rest: Rest, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with RemoteEnv(rest.url, rest.key, share=False) as env, pytest.raises(SandboxError, match="only directories"):
        env.open(Spec(binds=(Bind(tmp_path / "f", "/opt/f"),)))


def test_what_is_open_is_renewed_and_closed_with_the_environment(rest: Rest) -> None:
    with RemoteEnv(rest.url, rest.key) as env:
        boxes = [env.open(Spec()) for _ in range(2)]
        assert env.renew() == ()
        rest("DELETE", f"/v1/sandboxes/{boxes[0].id}")
        assert env.renew() == (boxes[0].id,)
        assert ids(rest) == {boxes[1].id}
    assert ids(rest) == set()


def test_a_process_that_ends_leaves_nothing(rest: Rest) -> None:
    code = (
        "import sys\nfrom orchard_cli.env.remote import RemoteEnv\nfrom orchard_cli.env.sandbox import Spec\n"
        "env = RemoteEnv(sys.argv[1], sys.argv[2])\nenv.open(Spec())\nprint('opened')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, rest.url, rest.key], capture_output=True, text=True, check=True)
    assert done.stdout == "opened\n"
    assert "left open at exit" in done.stderr
    assert ids(rest) == set()


def test_a_sandbox_that_is_gone_was_lost_to_the_infrastructure(rest: Rest) -> None:
    with RemoteEnv(rest.url, rest.key) as env:
        box = env.open(Spec())
        rest("DELETE", f"/v1/sandboxes/{box.id}")
        for call in (lambda: box.exec("true"), lambda: box.read("f"), box.diff, box.fork):
            with pytest.raises(SandboxError) as caught:
                call()
            fault = caught.value.fault
            assert (fault.code, fault.attributable, fault.retry) == ("infra.sandbox_lost", "infra", "fresh")
        box.close()


def test_large_files_travel_in_pieces(rest: Rest, tmp_path: Path) -> None:
    import os

    data = os.urandom(1 << 20) * 20
    (tmp_path / "in").write_bytes(data)
    with RemoteEnv(rest.url, rest.key) as env, env.open(Spec()) as box:
        assert box.upload(tmp_path / "in", "f", mode=0o600) == len(data)
        assert box.download("f", tmp_path / "out") == len(data)
        assert box.exec("stat -c '%a %s' f").stdout == f"600 {len(data)}\n".encode()
        with pytest.raises(SandboxError):
            box.download("none", tmp_path / "none")
    assert (tmp_path / "out").read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_frames_stream_and_end(rest: Rest) -> None:
    with RemoteEnv(rest.url, rest.key) as env, env.open(Spec()) as box:
        events = list(box.start("echo a; echo b >&2; exit 4").events())
    assert [event.type for event in events] == ["started", "out", "err", "exit"]
    assert events[-1].more["exit_code"] == 4


def test_the_same_client_awaited(rest: Rest) -> None:
    import asyncio

    async def main() -> list[bytes]:
        async with AsyncEnv(rest.url, rest.key) as env, await env.open(Spec()) as box:
            await box.write("f", b"x")
            results = await asyncio.gather(*(box.exec(f"cat f; echo {n}") for n in range(8)))
            events = [event async for event in box.stream("echo hi")]
            assert events[-1].more["exit_code"] == 0
            async with await box.fork() as fork:
                assert await fork.read("f") == b"x"
            return [result.stdout for result in results]

    assert asyncio.run(main()) == [f"x{n}\n".encode() for n in range(8)]
    assert ids(rest) == set()


def test_the_settings_open_it(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", rest.key)
    cfg = replace(schema.Env(), kind="remote", url=rest.url, api_key_env="THEIR_KEY")
    env = open_env(cfg)
    assert env.describe()["isolation"] == "bwrap"
    assert env.describe()["url"] == rest.url
    env.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": ""}, "needs to know the server"),
        ({"url": "nonsense"}, "not the address"),
        ({"url": "http://127.0.0.1:1"}, "cannot be reached"),
        ({"url": "http://[::1"}, "not the address"),
        ({"api_key_env": "NO_SUCH_VARIABLE"}, "API key is needed"),
        ({"isolation": "process"}, "isolates by `bwrap`"),
        ({"isolation": "gvisor"}, "isolates by `bwrap`"),
    ],
)
def test_settings_that_cannot_be_met(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], said: str
) -> None:
    monkeypatch.setenv("ORCHARD_ENV_API_KEY", rest.key)
    with pytest.raises(ConfigError, match=said) as caught:
        open_env(replace(schema.Env(), kind="remote", **({"url": rest.url} | change)))
    assert caught.value.hint


def test_no_isolation_is_taken_only_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_ENV_API_KEY", "k")
    with LocalEnv("process") as local, serving(local, Settings(tmp_path / "state", "k")) as url:
        cfg = replace(schema.Env(), kind="remote", url=url)
        with pytest.raises(ConfigError, match="isolates by `none`"):
            open_env(cfg)
        open_env(replace(cfg, isolation="process")).close()


def test_a_server_that_died_is_not_waited_for_at_the_end(shared_env: LocalEnv, tmp_path: Path) -> None:
    import time

    with serving(shared_env, Settings(tmp_path / "state", "k")) as url:
        env = RemoteEnv(url, "k")
        for _ in range(8):
            env.open(Spec())
    began = time.monotonic()
    env.close()
    assert time.monotonic() - began < 30  # not thirty seconds for each
