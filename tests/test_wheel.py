"""The wheel stands alone: built, installed in a bare environment, run from an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.timeout(600)
def test_a_wheel_in_a_bare_environment_runs_from_an_empty_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {"orchard_cli"}, "nothing at the top level"
    assert "orchard_cli/conf/config.yaml" in names and "orchard_cli/recipes/swe/domain.yaml" in names
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    orchard = venv / "bin" / "orchard"
    domains = subprocess.run([orchard, "domains"], cwd=empty, capture_output=True, text=True, check=True)
    assert "swe" in domains.stdout
    done = subprocess.run(
        [orchard, "swe", "distill", "tasks.limit=2"], cwd=empty, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (empty / "runs" / "swe" / "demo" / "distill" / "trajectories.jsonl.zst").exists()
    missing = subprocess.run(
        [orchard, "swe", "sft", "sft=plain"], cwd=empty, capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2
    assert "needs the `torch` package" in missing.stderr and "pip install 'orchard-cli[train]'" in missing.stderr
