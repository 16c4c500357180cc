"""Reading, writing and listing: by path, and never outside."""

import os
import threading
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Bind, Sandbox, Spec
from orchard_cli.errors import SandboxError


def code_of(call: object, *arguments: object) -> str:
    with pytest.raises(SandboxError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.fault.code


def test_written_bytes_are_read_back(sandbox: Sandbox) -> None:
    data = os.urandom(2_500_000)
    sandbox.write("deep/er/file.bin", data, mode=0o750)
    assert sandbox.read("deep/er/file.bin") == data == sandbox.read("/workspace/deep/er/file.bin")
    assert sandbox.exec("stat -c %a deep/er/file.bin").stdout == b"750\n"


def test_tree_itself_never_changes(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.write("a.txt", b"changed")
    sandbox.exec("touch new; chmod 777 .")
    assert (tmp_path / "tree" / "a.txt").read_text() == "one\ntwo\n"
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["a.txt"]


def test_list_names_directories_and_odd_names(sandbox: Sandbox) -> None:
    odd = os.fsdecode(b"\xff\n")
    sandbox.exec("mkdir d; ln -s d link; mkfifo pipe")
    sandbox.write(odd, b"x")
    assert sandbox.list() == tuple(sorted(["a.txt", "d/", "link", "pipe", odd], key=os.fsencode))
    assert sandbox.read(odd) == b"x"


def test_everything_may_be_written_to(sandbox: Sandbox) -> None:
    """As in any container of one's own: system directories too, and nothing of it reaches the host."""
    places = "/usr/bin/orchard-x /etc/orchard-x /opt/orchard-x /var/lib/orchard-x /root/x /home/x /tmp/x /srv/x /x"
    result = sandbox.exec(f"for f in {places}; do echo x >$f || exit 1; done; echo 127.0.0.1 me >>/etc/hosts")
    assert result.ok, result.stderr
    assert not Path("/usr/bin/orchard-x").exists() and not Path("/etc/orchard-x").exists()
    if os.geteuid() == 0:
        assert sandbox.exec("rm /usr/bin/env; ls /usr/bin/env").exit_code == 2
        assert Path("/usr/bin/env").exists()


def test_missing_and_wrong_kinds_are_client_faults(sandbox: Sandbox) -> None:
    sandbox.exec("mkdir d; mkfifo pipe; ln -s /dev/zero zero; ln -s loop loop")
    assert code_of(sandbox.read, "nope") == "client.no_such_file"
    assert code_of(sandbox.read, "d") == "client.is_a_directory"
    assert code_of(sandbox.read, "pipe") == "client.not_a_file"
    assert code_of(sandbox.read, "zero") == "client.not_a_file"
    assert code_of(sandbox.read, "loop") == "client.file_error"
    assert code_of(sandbox.list, "a.txt") == "client.file_error"
    assert code_of(sandbox.write, "d", b"") == "client.is_a_directory"
    assert code_of(sandbox.read, "a\0b") == "client.bad_argument"


def test_too_large_a_file_is_not_read(sandbox: Sandbox) -> None:
    sandbox.exec("truncate -s 100G huge")
    assert code_of(sandbox.read, "huge") == "client.too_large"
    with pytest.raises(SandboxError, match="8 bytes, more than 3"):
        sandbox.read("a.txt", max_bytes=3)


def test_links_lead_nowhere_but_inside(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host only")
    sandbox.exec(f"ln -s {secret} out; ln -s {tmp_path} folder; ln -s /etc/shadow shadow; ln -s / root")
    assert code_of(sandbox.read, "out") == "client.no_such_file"
    assert code_of(sandbox.read, "folder/secret") == "client.no_such_file"
    assert code_of(sandbox.read, "shadow") == "client.no_such_file"
    assert code_of(sandbox.read, "../../../../../.." + str(secret)) == "client.no_such_file"
    assert "etc/" in sandbox.list("root")


def test_write_replaces_a_link_or_pipe_instead_of_following(sandbox: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "target"
    sandbox.exec(f"ln -s {target} out; mkfifo pipe; ln -s /workspace/a.txt inner")
    for name in ("out", "pipe", "inner"):
        sandbox.write(name, b"new")
        assert sandbox.read(name) == b"new"
    assert not target.exists() and sandbox.read("a.txt") == b"one\ntwo\n"


def test_reader_wins_no_race_against_a_swapping_link(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host only")
    swap = f"while :; do ln -sfn {secret} s; rm -rf s; echo in >s; rm -f s; mkfifo s; rm -f s; done"
    swapper = threading.Thread(target=lambda: sandbox.exec(swap, timeout_s=1))
    swapper.start()
    seen = set()
    while swapper.is_alive():
        try:
            seen.add(sandbox.read("s"))
        except SandboxError as error:
            seen.add(error.fault.code.encode())
    swapper.join()
    assert b"host only" not in seen
    assert seen <= {b"in\n", b"", b"client.no_such_file", b"client.not_a_file"}


def test_bind_is_shown_and_read_only(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "f").write_text("shown")
    (tmp_path / "one").write_text("file")
    binds = (Bind(tmp_path / "lib", "/opt/deep/lib"), Bind(tmp_path / "one", "/etc/one"))
    with env.open(Spec(binds=binds)) as opened:
        assert opened.exec("cat /opt/deep/lib/f /etc/one").stdout == b"shownfile"
        assert opened.exec("echo x >/opt/deep/lib/f").exit_code == 1
        assert opened.exec("touch /opt/deep/lib/new || rm /etc/one").exit_code == 1
    assert (tmp_path / "lib" / "f").read_text() == "shown"


@pytest.mark.parametrize(
    "spec",
    [
        Spec(tree=Path("/no/such/tree")),
        Spec(image="/no/such/image"),
        Spec(binds=(Bind(Path("/no/such/bind"), "/x"),)),
        Spec(workdir="relative"),
        Spec(workdir="/usr/"),
        Spec(network="open"),
    ],
)
def test_spec_that_cannot_be_met_is_the_client_s_fault(env: LocalEnv, spec: Spec) -> None:
    assert code_of(env.open, spec) == "client.bad_spec"


def test_closed_sandbox_says_so(env: LocalEnv) -> None:
    opened = env.open(Spec())
    opened.close()
    opened.close()
    assert code_of(opened.exec, "true") == "client.closed"


def test_image_may_be_a_root_directory(env: LocalEnv, tmp_path: Path) -> None:
    root = tmp_path / "image"
    for name in ("usr", "bin", "lib", "lib64", "testbed"):
        (root / name).mkdir(parents=True)
    (root / "testbed" / "given").write_text("from the image\n")
    binds = tuple(Bind(Path(f"/usr/{name}"), f"/{name}") for name in ("bin", "lib", "lib64"))
    with env.open(Spec(image=str(root), workdir="/testbed", binds=binds)) as opened:
        assert "etc/" not in opened.list("/")
        opened.exec("echo more >>given; echo x >/written")
        assert "+more" in opened.diff() and "written" in opened.list("/")
    assert not (root / "written").exists()
