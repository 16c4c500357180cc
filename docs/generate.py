"""Write docs/settings.md from `schema.py`: every setting, its default, its limits and its one line of meaning."""

import ast
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchard_cli import schema

HERE = Path(__file__).parent


def meanings() -> dict[tuple[str, str], str]:
    """(class, field) → the string under the field."""
    found = {}
    for node in ast.parse(Path(schema.__file__).read_text()).body:
        if isinstance(node, ast.ClassDef):
            for field, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                    found[node.name, ast.unparse(field.target)] = ast.literal_eval(after.value)
    return found


def rows(cls: type, prefix: str, said: dict[tuple[str, str], str]) -> list[str]:
    lines = []
    for field in dataclasses.fields(cls):
        default = field.default_factory() if callable(field.default_factory) else field.default
        if dataclasses.is_dataclass(default):
            lines += rows(type(default), f"{prefix}{field.name}.", said)
        else:
            shown = repr(default) if isinstance(default, str) else str(default)
            meaning = said[cls.__name__, field.name]
            lines.append(f"| `{prefix}{field.name}` | `{shown}` | {limits(field.metadata)} | {meaning} |")
    return lines


def limits(metadata: Mapping[str, Any]) -> str:
    """What may be given, as `schema.setting` has it."""
    signs = {"least": "≥", "above": ">", "most": "≤", "below": "<"}
    numbers = [f"{sign} {metadata[name]}" for name, sign in signs.items() if metadata.get(name) is not None]
    return ", ".join([*numbers, *metadata.get("of", ())])


def page() -> str:
    head = "# Settings\n\nMade from `src/orchard_cli/schema.py` by `make docs`.\n"
    head += "A choice such as `rl=bar` sets several at once; see `conf/`.\n\n"
    table = "| setting | default | may be | meaning |\n| --- | --- | --- | --- |\n"
    return head + table + "\n".join(rows(schema.Config, "", meanings())) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit((HERE / "settings.md").read_text() != page())
    (HERE / "settings.md").write_text(page())
