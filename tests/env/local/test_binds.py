"""A Python from outside the system works inside when its venv is bound."""

import subprocess
import sys
import venv
from pathlib import Path

from orchard_cli.env.local.binds import completed, python_binds
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Bind, Spec


def test_venv_brings_its_base_along(env: LocalEnv, tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    (folder / "lib" / f"python3.{sys.version_info[1]}" / "site-packages" / "mine.py").write_text("x = 7")
    with env.open(Spec(binds=(Bind(folder, str(folder)),))) as opened:
        said = opened.exec([f"{folder}/bin/python", "-c", "import mine, ssl, sys; print(mine.x, sys.prefix)"])
    assert said.stdout.decode().split() == ["7", str(folder)], said.stderr


def test_base_is_bound_once_and_only_when_it_is_outside(tmp_path: Path) -> None:
    folder, base = tmp_path / "venv", tmp_path / "base"
    for place in (folder, base):
        (place / "bin").mkdir(parents=True)
    (base / "bin" / "python").write_text("")
    (folder / "bin" / "python").symlink_to(base / "bin" / "python")
    (folder / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    assert python_binds(folder / "bin" / "python") == (Bind(folder, str(folder)), Bind(base, str(base)))
    given = (Bind(folder, "/venv"),)
    assert completed(given) == (*given, Bind(base, str(base)))
    assert completed(completed(given)) == completed(given)
    assert python_binds(Path("/usr/bin/env")) == ()


def test_python_of_the_system_is_there(env: LocalEnv) -> None:
    with env.open(Spec()) as opened:
        assert opened.exec("python3 -c 'import json, ssl, sqlite3; print(1)'").stdout == b"1\n"


def test_spawner_and_agent_need_nothing_but_the_standard_library() -> None:
    folder = Path(__file__).parents[3] / "src/orchard_cli/env"
    code = (
        f"import sys; env = type(sys)('env'); env.__path__ = ['{folder}']; sys.modules['env'] = env;"
        "import env.local.spawner.main; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, text=True, check=True)
    assert "orchard_cli" not in done.stdout
    assert "env.local.spawner.box" in done.stdout and "env.agent.agent" in done.stdout
