"""Forks that share what their origin has written: nobody sees what the other does from then on, and nothing is left."""

import itertools
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.spawner import layers, sealing
from orchard_cli.env.sandbox import Sandbox, Spec

from ..conftest import settled
from .sealed import MANY, NEW_ENOUGH, out, way

pytestmark = NEW_ENOUGH
STATE = "find . -path ./many -prune -o -printf '%p %y %m %l\\n' | sort; find . -type f -exec cksum {} + | sort -k3"


@pytest.fixture
def box(env: LocalEnv, tmp_path: Path) -> Iterator[Sandbox]:
    """One that has written much, over a tree."""
    tree = tmp_path / "tree"
    (tree / "given" / "deep").mkdir(parents=True)
    for name in ("keep", "gone", "given/one", "given/deep/two"):
        (tree / name).write_text(f"{name}\n")
    with env.open(Spec(tree=tree)) as opened:
        assert opened.exec(MANY).ok
        yield opened


def test_both_have_all_that_was_written_and_neither_sees_the_other(box: Sandbox) -> None:
    out(box, "mkdir d; echo x >d/f; echo y >both; chmod 640 both; ln -s both link; mkfifo pipe; chmod 1777 .")
    before = out(box, STATE)
    with box.fork() as fork:
        assert way(fork) == "sealed"
        assert out(fork, STATE) == out(box, STATE) == before
        assert "." in before and " d 1777" in before and "./both f 640" in before
        out(fork, "echo fork >both; rm d/f; echo in >d/in; mv keep kept")
        out(box, "echo box >>d/f; rm both; mkdir both; echo z >many/300")
        assert out(fork, "cat both d/in kept; ls d; ls many | wc -l") == "fork\nin\nkeep\nin\n220\n"
        assert out(box, "cat d/f keep; ls both; ls many | wc -l") == "x\nbox\nkeep\n221\n"


def test_deleted_and_replaced_directories_stay_so_on_either_side(box: Sandbox) -> None:
    out(box, "rm gone; rm -r given; mkdir given; echo new >given/new")
    with box.fork() as fork:
        assert way(fork) == "sealed"
        assert out(fork, "ls given; test ! -e gone") == "new\n"
        out(fork, "rm -r given; mkdir given; echo newer >given/newer; echo back >gone")
        out(box, "rm given/new; rmdir given")
        assert out(fork, "ls given; cat gone") == "newer\nback\n"
        assert out(box, "test ! -e given && test ! -e gone && echo none") == "none\n"
        with fork.fork() as third:
            assert out(third, "ls given; cat gone") == "newer\nback\n"


def test_attributes_of_files_are_shared_once_and_then_apart(box: Sandbox) -> None:
    set_, get = "import os; os.setxattr('f', 'user.a', b'{}')", "import os; print(os.getxattr('f', 'user.a').decode())"
    run: Callable[[Sandbox, str], str] = lambda sandbox, code: out(sandbox, f'python3 -c "{code}"')  # noqa: E731
    out(box, "echo x >f; touch -d 2001-01-01 f")
    run(box, set_.format("1"))
    with box.fork() as fork:
        assert way(fork) == "sealed" and run(fork, get) == "1\n" and out(fork, "stat -c %Y f") == "978307200\n"
        run(fork, set_.format("2"))
        out(box, "chmod 600 f")
        assert (run(fork, get), run(box, get)) == ("2\n", "1\n")
        assert (out(fork, "stat -c %a f"), out(box, "stat -c %a f")) == ("644\n", "600\n")


def test_files_of_several_names_stay_one_file(box: Sandbox) -> None:
    """A lower layer would part them at the next write: these are copied."""
    out(box, "echo x >a; ln a b")
    with box.fork() as fork:
        assert way(fork) == "copied: a file has several names"
        for sandbox in (box, fork):
            assert out(sandbox, "echo more >>a; cat b; [ a -ef b ] && echo same") == "x\nmore\nsame\n"


HOLDERS = {
    "a directory to stand in": "sleep 60",
    "an open file": "exec 5>>log; cd /; while :; do echo tick >&5; sleep 0.02; done",
    "a mapped file": "exec python3 -c \"import mmap, os, time; fd = os.open('keep', os.O_RDWR); "
    "m = mmap.mmap(fd, 0); os.close(fd); os.chdir('/'); time.sleep(60)\"",
    "a socket with a name": 'exec python3 -c "import os, socket, time; s = socket.socket(socket.AF_UNIX); '
    "s.bind('sock'); os.chdir('/'); time.sleep(60)\"",
}


@pytest.mark.parametrize("script", HOLDERS.values(), ids=HOLDERS.keys())
def test_who_holds_part_of_the_work_directory_keeps_it(box: Sandbox, script: str) -> None:
    running = box.start(["bash", "-c", f"touch ready; {script}"])
    settled(lambda: "ready" in box.list(), True)
    out(box, "sleep 0.3")
    with box.fork() as fork:
        assert way(fork) == "copied: processes use the work directory"
        assert out(fork, "ls many | wc -l; pgrep -x 'sleep|python3' || echo none") == "220\nnone\n"
        out(fork, "rm -rf *")
        assert out(box, "ls many | wc -l") == "220\n"
        if "log" in script:
            count = len(box.read("log"))
            assert settled(lambda: len(box.read("log")) > count, True)
    running.cancel()
    with box.fork() as fork:
        assert way(fork) == "sealed"


def test_a_process_that_holds_nothing_there_runs_on_and_sees_its_own_side(box: Sandbox) -> None:
    where = box.workdir
    loop = f"cd /; n=0; while :; do n=$((n+1)); echo $n >{where}/count.tmp && mv {where}/count.tmp {where}/count; done"
    running = box.start(["bash", "-c", loop])
    assert settled(lambda: "count" in box.list(), True)
    forks, ways = [], set()
    for _ in range(6):
        out(box, f"cd /; rm -rf {where}/many; mkdir {where}/many; seq -f {where}/many/%g 230 | xargs touch")
        forks.append(box.fork())
        ways.add(way(forks[-1]))
    seen = [int(fork.read("count") or 0) for fork in forks if "count" in fork.list()]
    now = int(out(box, "cat count"))
    assert settled(lambda: int(out(box, "cat count")) > now, True)
    assert seen == sorted(seen) and seen[-1] <= now
    assert [fork.read("count") for fork in forks[:1]] == [b"%d\n" % seen[0]]
    record = running.cancel() and running.wait(10)
    assert record is None or b"No such file" not in record.stderr
    for fork in forks:
        fork.close()
    assert ways <= {"sealed", "copied: processes use the work directory"}


def test_who_watches_files_goes_on_being_told(box: Sandbox) -> None:
    watch = (
        "import ctypes, os; libc = ctypes.CDLL(None); fd = libc.inotify_init(); "
        f"libc.inotify_add_watch(fd, b'{box.workdir}', 0x100); os.chdir('/'); open('/tmp/ready', 'w').close(); "
        "open('/tmp/told', 'wb').write(os.read(fd, 4096))"
    )
    running = box.start(["python3", "-c", watch])
    assert settled(lambda: "ready" in box.list("/tmp"), True)
    with box.fork() as fork:
        assert way(fork) == "copied: a process watches files"
        out(fork, "touch in-fork")
        out(box, "touch in-box")
        assert running.wait(10) is not None
        told = box.read("/tmp/told")
        assert b"in-box" in told and b"in-fork" not in told


def test_little_is_copied(sandbox: Sandbox) -> None:
    sandbox.exec("echo x >f")
    with sandbox.fork() as fork:
        assert way(fork) == "copied: little was written" and fork.read("f") == b"x\n"


CHANGES = (
    "echo {n} >>keep",
    "rm -f gone",
    "rm -rf given/deep",
    "mkdir -p given/deep && echo {n} >given/deep/two",
    "rm -rf given && mkdir given && echo {n} >given/x{n}",
    "rm -rf given && echo {n} >given || true",
    "rm -f given 2>/dev/null || mv given moved{n}",
    "mkdir -p new/{n} && echo {n} >new/{n}/f",
    "chmod 7{n}{n} . many",
    "ln -sfn new link",
    "rm -rf new",
    "mv keep new 2>/dev/null || true",
    "echo {n} >many/{n}; rm -f many/1{n}",
)


@pytest.mark.parametrize("seed", range(3))
def test_any_changes_over_generations_are_those_of_plain_directories(box: Sandbox, tmp_path: Path, seed: int) -> None:
    chance, models = random.Random(seed), itertools.count()
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-a", tmp_path / "tree", plain], check=True)
    pairs: list[tuple[Sandbox, Path]] = [(box, plain)]
    sealed = 0
    subprocess.run(["bash", "-c", MANY], cwd=plain, check=True)
    for _ in range(4):
        sandbox, model = pairs[chance.randrange(len(pairs))]
        refill = f"for n in $(seq 240); do echo $n >many/r{next(models)}-$n; done"
        for target, folder in pairs:
            for change in chance.sample(CHANGES, 5):
                script = change.format(n=chance.randrange(5)) + "; mkdir -p many; " + refill
                target.exec(script)
                subprocess.run(["bash", "-c", script], cwd=folder, stderr=subprocess.DEVNULL)
        fork, copy = sandbox.fork(), tmp_path / f"plain{next(models)}"
        subprocess.run(["cp", "-a", model, copy], check=True)
        sealed += way(fork) == "sealed"
        pairs.append((fork, copy))
        for target, folder in pairs:
            expected = subprocess.run(["bash", "-c", STATE], cwd=folder, capture_output=True, text=True).stdout
            assert out(target, STATE) == expected
    for fork, _ in pairs[1:]:
        fork.close()
    assert sealed >= 3


EDITS = (
    "echo 1 >>keep; rm gone; rm -r given; mkdir given; echo n >given/new",
    "echo 2 >>keep; rm -r given; echo b >gone",
)


def test_diff_and_patch_are_those_of_one_that_was_never_forked(env: LocalEnv, box: Sandbox, tmp_path: Path) -> None:
    with env.open(Spec(tree=tmp_path / "tree")) as other, env.open(Spec(tree=tmp_path / "tree")) as fresh:
        for script in (MANY, *EDITS):
            out(other, script)
        out(box, EDITS[0])
        before = box.diff()
        with box.fork() as fork:
            assert way(fork) == "sealed" and fork.diff() == box.diff() == before
            out(fork, EDITS[1])
            assert (fork.diff(), box.diff()) == (other.diff(), before)
            assert "given/deep/two" in before and "given/new" not in fork.diff()
            fresh.patch(fork.diff())
            assert fresh.diff() == fork.diff()
            box.patch("--- a/keep\n+++ b/keep\n@@ -1,2 +1,2 @@\n keep\n-1\n+one\n")
            assert box.read("keep") == b"keep\none\n" and fork.read("keep") == b"keep\n1\n2\n"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:5])
def test_they_end_in_any_order(env: LocalEnv, order: tuple[int, ...]) -> None:
    first = env.open(Spec())
    out(first, MANY + "; echo 1 >f")
    second = first.fork()
    out(second, MANY.replace("many", "more") + "; echo 2 >>f")
    third = second.fork()
    assert (way(second), way(third)) == ("sealed", "sealed")
    family, content = [first, second, third], [b"1\n", b"1\n2\n", b"1\n2\n"]
    for number in order:
        family[number].close()
        content[number] = b""
        for sandbox, wanted in zip(family, content, strict=True):
            assert not wanted or (sandbox.read("f"), len(sandbox.list("many"))) == (wanted, 220)


def test_what_nobody_shares_is_removed_when_the_origin_ends(tmp_path: Path) -> None:
    for name in ("work", "work.1", "top"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "f").write_text(name)
    folder = os.open(tmp_path, os.O_RDONLY)
    layers._remove_all_but(["work"], folder)
    os.close(folder)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["work", "work/deep", "work/f"]


def test_after_thirty_layers_it_is_copied(env: LocalEnv) -> None:
    line = env.open(Spec())
    ways = []
    for number in range(sealing.MOST_LAYERS + 2):
        out(line, f"mkdir m{number}; cd m{number}; seq 201 | xargs touch")
        fork = line.fork()
        ways.append(way(fork))
        line.close()
        line = fork
    assert ways[:30] == ["sealed"] * 30 and ways[30:] == ["copied: there are 30 layers already"] * 2
    assert out(line, "ls | wc -l; ls m*/1 | wc -l") == "32\n32\n"
    line.close()


def test_forks_at_the_same_time_have_all_of_it(box: Sandbox) -> None:
    with ThreadPoolExecutor(6) as pool:
        forks = list(pool.map(lambda number: box.fork(), range(6)))
    assert sorted({way(fork) for fork in forks}) == ["copied: little was written", "sealed"]
    for number, fork in enumerate(forks):
        fork.write("mine", b"%d" % number)
    assert [fork.read("mine") for fork in forks] == [b"%d" % number for number in range(6)]
    assert all(len(fork.list("many")) == 220 for fork in forks) and "mine" not in box.list()
    for fork in forks:
        fork.close()
