"""SFT learns the same from the same attempts, in whatever order they ended."""

from pathlib import Path

from orchard_cli.launch.local import launch
from orchard_cli.policy.weights import fingerprint
from orchard_cli.trajectory.reading import read
from orchard_cli.trajectory.store import Store

SMALL = ["sft=plain", "model.hidden=32", "model.layers=1", "model.ffn=64", "model.heads=2", "model.vocab=300"]
WORDS = [*SMALL, "model.threads=1", "sft.tokens=3000", "sft.batch_tokens=100", "domain.words=6"]


def test_the_order_in_which_attempts_ended_changes_nothing(echo: Path) -> None:
    prints = []
    for name in ("one", "two"):
        launch("echo", "distill", [f"run={name}", "domain.words=6", "teacher.error_rate=0"])
        file = Path("runs/echo") / name / "distill" / "trajectories.jsonl.zst"
        made = sorted(read(file), key=lambda t: t.id, reverse=name == "two")
        file.unlink()
        with Store(file) as store:
            for trajectory in made:
                store.append(trajectory)
        launch("echo", "sft", [f"run={name}", *WORDS])
        prints.append(fingerprint(Path("runs/echo") / name / "sft" / "checkpoint"))
    assert prints[0] == prints[1]
