"""`orchard env cp`: where a copy comes to lie, and what is no file."""

import os
import subprocess
import sys
from pathlib import Path

from .conftest import Rest
from .test_command import orchard


def test_links_are_written_through_and_modes_stay(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    rest.out(id, "echo new >q")
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    (tmp_path / "real.part").write_text("mine")
    for name in ("real", "link", "dangling"):
        assert orchard(rest, "cp", f"{id}:q", name, cwd=tmp_path).returncode == 0
    assert (tmp_path / "link").readlink() == Path("real") and (tmp_path / "real").read_text() == "new\n"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "dangling").is_symlink() and (tmp_path / "made").read_text() == "new\n"
    assert (tmp_path / "real.part").read_text() == "mine"
    os.link(tmp_path / "real", tmp_path / "twin")
    rest.out(id, "echo newer >q")
    assert orchard(rest, "cp", f"{id}:q", "real", cwd=tmp_path).returncode == 0
    assert (tmp_path / "twin").read_text() == "newer\n"
    assert orchard(rest, "cp", f"{id}:none", "real", cwd=tmp_path).returncode == 1
    assert (tmp_path / "real").read_text() == "newer\n"


def test_pipes_and_devices_are_written_to_as_they_are(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    rest.out(id, "echo hello >q")
    (tmp_path / "out").symlink_to("/proc/self/fd/1")  # as /dev/stdout is one
    for name in ("-", "/dev/stdout", "out"):
        assert orchard(rest, "cp", f"{id}:q", name, cwd=tmp_path).stdout == "hello\n"
    assert (tmp_path / "out").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    assert orchard(rest, "cp", f"{id}:q", "pipe", cwd=tmp_path).returncode == 0
    assert reader.communicate(timeout=20)[0] == b"hello\n" and (tmp_path / "pipe").is_fifo()


def test_standard_input_is_a_source_and_a_pipe_is_told_to_be_none(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    assert orchard(rest, "cp", "-", f"{id}:from", stdin="typed").returncode == 0
    assert rest.out(id, "cat from") == "typed"
    os.mkfifo(tmp_path / "pipe")
    done = orchard(rest, "cp", str(tmp_path / "pipe"), f"{id}:x")
    assert done.returncode == 2 and "neither a file nor a directory" in done.stderr and "cp - " in done.stderr


def test_into_a_directory_it_goes_under_its_own_name(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    rest.out(id, "mkdir d; echo x >q")
    for name in ("a:b", "f"):
        (tmp_path / name).write_text(name)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "abs").symlink_to("/usr/bin/env")  # as in any venv
    (tmp_path / "tree" / "t").write_text("t")
    os.mkfifo(tmp_path / "tree" / "pipe")
    inward = [("./a:b", ""), (str(tmp_path / "a:b"), "d"), ("f", "d/"), ("f", "g"), ("tree", "new"), ("tree", "d")]
    for source, path in [*inward, ("tree/.", "d")]:
        done = orchard(rest, "cp", source, f"{id}:{path}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert rest.out(id, "find . | sort").split() == sorted(
        [".", "./a:b", "./d", "./d/a:b", "./d/f", "./g", "./q", "./new", "./new/abs", "./new/t"]
        + ["./d/tree", "./d/tree/abs", "./d/tree/t", "./d/abs", "./d/t"]
    )
    assert rest.out(id, "readlink new/abs") == "/usr/bin/env\n"
    (tmp_path / "here").mkdir()
    for path in ("q", "new"):
        assert orchard(rest, "cp", f"{id}:{path}", "here", cwd=tmp_path).returncode == 0
    assert (tmp_path / "here" / "q").read_text() == "x\n"
    assert (tmp_path / "here" / "new" / "abs").readlink() == Path("/usr/bin/env")


def test_an_output_that_is_closed_is_no_fault(rest: Rest) -> None:
    id = rest.make()
    rest.out(id, "head -c 2000000 /dev/zero >big")
    environment = {**os.environ, "ORCHARD_ENV_URL": rest.url, "ORCHARD_ENV_API_KEY": rest.key}
    argv = [sys.executable, "-m", "orchard_cli", "env", "cp", f"{id}:big", "-"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as copying:
        assert copying.stdout is not None and copying.stderr is not None
        copying.stdout.read(10)
        copying.stdout.close()
        assert copying.stderr.read() == b"" and copying.wait(30) == 141


def test_what_cannot_be_copied_is_named_and_the_rest_is(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d" / "pipe")
    (tmp_path / "d" / "file").write_text("f")
    there = orchard(rest, "cp", "d", f"{id}:d", cwd=tmp_path)
    assert there.returncode == 0 and "1 devices, pipes and sockets were left out: ./pipe" in there.stderr
    assert rest.out(id, "ls d; mkfifo d/other") == "file\n"
    back = orchard(rest, "cp", f"{id}:d", "back", cwd=tmp_path)
    assert back.returncode == 0 and "were left out: other" in back.stderr
    assert (tmp_path / "back" / "file").read_text() == "f" and not (tmp_path / "back" / "other").exists()


def test_what_cannot_be_read_inside_is_named_and_the_rest_is_copied(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    rest.out(id, "mkdir -p d/shut; echo a >d/a; echo b >d/b; chmod 000 d/a d/shut")
    rest.out(id, "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d/s\")'")
    done = orchard(rest, "cp", f"{id}:d", "back", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("error: 2 of d cannot be read in the sandbox")
    assert " a" in done.stderr and " shut" in done.stderr
    assert (tmp_path / "back" / "b").read_text() == "b\n" and not (tmp_path / "back" / "a").exists()
    rest.out(id, "chmod -R u+rX d")
    done = orchard(rest, "cp", f"{id}:d", "whole", cwd=tmp_path)
    assert done.returncode == 0 and "1 devices, pipes and sockets were left out: s" in done.stderr
    assert (tmp_path / "whole" / "a").read_text() == "a\n"
