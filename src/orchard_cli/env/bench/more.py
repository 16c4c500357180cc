"""What is measured only when it is asked for by name, as tables, and whether it held."""

from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ConfigError
from .times import Figures, Note, Row, Table


@dataclass(frozen=True)
class More:
    """What to measure; 0: not at all."""

    agents: bool = False
    fork_mib: int = 0
    transfer_mib: int = 0
    calls: int = 0
    faults: int = 0
    cycles: int = 0
    soak_minutes: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= value < float("inf") for value in vars(self).values()):
            raise ConfigError("what is measured is 0 or more, and finite", hint="0, the default, leaves it out")

    @property
    def any(self) -> bool:
        return self != More()

    def measure(self, repeat: int, note: Note) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if self.agents:
            from .agents import agents

            result["agents"] = agents(repeat, note)
        if self.fork_mib:
            from .forks import forks

            result["forks"] = forks(self.fork_mib, 5, note)
        if self.transfer_mib:
            from .transfers import transfers

            result["transfers"] = transfers(self.transfer_mib, note)
        if self.faults:
            from .faults import faults

            rows = faults(self.faults, note)
            result["faults"] = [{**vars(row), "said": dict(row.said)} for row in rows]  # `asdict` cannot copy a Counter
        if self.calls:
            from .chaos import chaos

            result["calls"] = [asdict(row) for row in chaos(self.calls, note)]
        if self.cycles or self.soak_minutes:
            from .growth import growth

            found = growth(self.cycles, self.soak_minutes, note)
            result["growth"] = {**asdict(found), "grown": found.grown}
        return result


def held(result: dict[str, Any]) -> bool:
    """Nothing ran twice, was lost, grew, or was blamed on somebody else."""
    wrong = [row["twice"] + row["missing"] for row in result.get("calls", ())]
    wrong += [row["wrong"] for row in result.get("faults", ())]
    growth = result.get("growth")
    return not any(wrong) and not (growth and (growth["grown"] or growth["failed"]))


def tables(result: dict[str, Any]) -> list[Table]:
    found: list[Table] = []
    for part, title in (("agents", "agent of a sandbox"), ("forks", "fork"), ("transfers", "bytes in and out")):
        found += _measured(title, result[part]) if part in result else []
    for row in result.get("calls", ()):
        network = ", ".join(f"{what} {count}" for what, count in sorted(row["done"].items()))
        title = f"{row['calls']} calls, {row['way']}, {row['seconds']:.0f} s" + (", stopped" if row["stopped"] else "")
        names: Row = ("answered", "ran", "twice", "missing")
        found.append((f"{title} (network: {network})", names, [tuple(str(row[name]) for name in names)]))
    if "faults" in result:
        names = ("fault", "n", "owner", "said", "wrong", "unknown")
        found.append(
            ("faults by injection", names, [tuple(_said(row[name]) for name in names) for row in result["faults"]])
        )
    if growth := result.get("growth"):
        title = f"{growth['cycles']} cycles in {growth['minutes']:.1f} min, {growth['failed']} failed"
        title += (", stopped" if growth["stopped"] else "") + f"; grown: {', '.join(growth['grown']) or 'nothing'}"
        before, after = growth["before"], growth["after"]
        rows: list[Row] = [(name, f"{before[name]:.5g}", f"{after[name]:.5g}") for name in before]
        found.append((title, ("", "start", "end"), rows))
    return found


def _faults(rows: list[dict[str, Any]]) -> Table:
    columns = ("fault", "n", "owner", "said", "wrong", "unknown")
    return "faults by injection", columns, [tuple(_said(row[name]) for name in columns) for row in rows]


def _said(value: object) -> str:
    return ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)


def _measured(title: str, rows: dict[str, Figures]) -> list[Table]:
    """One table for each set of columns."""
    kinds: dict[Row, list[Row]] = {}
    for name, found in rows.items():
        columns = tuple(found)
        kinds.setdefault(columns, []).append((name, *(f"{value:.2f}".removesuffix(".00") for value in found.values())))
    return [(title, ("", *columns), lines) for columns, lines in kinds.items()]
