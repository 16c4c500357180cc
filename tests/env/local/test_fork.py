"""A copy of a sandbox at one point."""

from pathlib import Path

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec


def test_fork_has_the_files_and_then_goes_its_own_way(sandbox: Sandbox) -> None:
    sandbox.exec("echo both >both; mkdir d; echo x >d/f; rm a.txt; echo sys >/etc/sys; echo t >/tmp/t")
    with sandbox.fork() as fork:
        assert fork.id != sandbox.id
        assert fork.exec("cat both d/f /etc/sys /tmp/t").stdout == b"both\nx\nsys\nt\n"
        assert fork.list() == sandbox.list() == ("both", "d/")
        assert fork.diff() == sandbox.diff()
        fork.exec("echo fork >both; rm -r d; touch in-fork")
        sandbox.exec("echo origin >>d/f; touch in-origin")
        assert (sandbox.read("both"), sandbox.read("d/f")) == (b"both\n", b"x\norigin\n")
        assert (sandbox.list(), fork.list()) == (("both", "d/", "in-origin"), ("both", "in-fork"))


def test_deleted_stays_deleted_in_forks_of_forks(env: LocalEnv, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "d" / "e").mkdir(parents=True)
    for name in ("d/one", "d/e/two", "three"):
        (tree / name).write_text(name)
    with env.open(Spec(tree=tree)) as first:
        first.exec("rm -r d; mkdir d; echo new >d/new; rm three")
        with first.fork() as second, second.fork() as third:
            assert third.list("d") == ("new",) and third.list() == ("d/",)
            assert third.diff() == first.diff()
            third.exec("rm -r d")
            assert second.list("d") == ("new",)


def test_fork_keeps_modes_links_times_and_odd_files(sandbox: Sandbox) -> None:
    sandbox.exec(
        "echo x >x; chmod 4750 x; ln x hard; ln -s /nowhere soft; mkfifo pipe; touch -d 2001-01-01 old;"
        "truncate -s 3G sparse; touch \"$(printf '\\377')\"; mkdir -m 1777 sticky; setfattr -n user.a -v b x || true"
    )
    look = "stat -c '%n %F %a %s %h %Y' x hard soft pipe old sparse sticky $'\\377'; [ x -ef hard ] && echo same"
    with sandbox.fork() as fork:
        assert fork.exec(look).stdout == sandbox.exec(look).stdout
        assert fork.exec("du -k sparse").stdout == b"0\tsparse\n"


def test_processes_are_not_copied_and_origin_may_end_first(sandbox: Sandbox) -> None:
    sandbox.exec("sleep 60 & echo x >kept")
    fork = sandbox.fork()
    sandbox.close()
    assert fork.exec("pgrep sleep").exit_code == 1
    assert fork.read("kept") == b"x\n"
    fork.close()


def test_fork_reads_nothing_of_the_host_through_links(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host only")
    sandbox.exec(f"ln -s {tmp_path} d; ln -s {tmp_path}/secret s; rm -rf /opt; ln -s {tmp_path} /opt")
    with sandbox.fork() as fork:
        assert fork.exec("cat s d/secret /opt/secret").stdout == b""


def test_fork_of_a_sandbox_that_moved_its_own_mount_points_is_refused_or_confined(
    env: LocalEnv, tmp_path: Path
) -> None:
    """Links put where the fork would mount must not make it mount over the host."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "work").mkdir()
    with env.open(Spec(workdir="/deep/work")) as opened:
        opened.exec(f"cd /; mv /deep /moved && ln -s {outside} /deep")
        try:
            fork = opened.fork()
        except Exception as error:
            assert error.fault.code == "sandbox.broken_by_workload"  # type: ignore[attr-defined]
            assert error.fault.attributable == "model"  # type: ignore[attr-defined]
        else:
            fork.close()
    assert list((outside / "work").iterdir()) == []
