"""The architecture, as tests: imports point down, no cycles, nothing heavy on the way in, budgets kept."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "orchard_cli"

LAYERS = [
    {"errors", "schema", "task", "outcome", "trajectory", "__init__"},
    {"env", "policy", "proxy"},
    {"harness", "domain", "rollout", "reward"},
    {"credit", "data", "train", "sample", "eval"},
    {"stages"},
    {
        "launch",
        "runs",
        "compose",
        "config_errors",
        "limits",
        "console",
        "cli",
        "commands",
        "domains",
        "recipes",
        "__main__",
    },
]
STRANGERS = (1, 3)  # layers whose members do not import each other
ALLOWED_SIBLINGS = {("train", "data")}
RECIPES_MAY = set().union(*LAYERS[:3]) | {"credit"}
HEAVY = (
    "torch",
    "transformers",
    "vllm",
    "kubernetes",
    "playwright",
    "openai",
    "pyarrow",
    "matplotlib",
    "hydra",
    "jinja2",
)

FILE_LINES, FUNCTION_LINES, STAGE_FUNCTION_LINES = 250, 40, 80


def layer(member: str) -> int:
    return next(i for i, members in enumerate(LAYERS) if member in members)


def member(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def sources(root: Path = SRC) -> list[Path]:
    return sorted(root.rglob("*.py"))


def imported(path: Path, root: Path = SRC, package: str = "orchard_cli") -> Iterator[str]:
    """Dotted names inside the package that a file imports, lazily or not, made absolute."""
    here = [package, *path.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{name}.{alias.name}"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_member_has_a_layer() -> None:
    assert {member(p) for p in sources()} <= set().union(*LAYERS)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    me = member(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "orchard_cli" or len(parts) < 2 or parts[1] == "__version__":
            continue
        other = parts[1]
        if other == me or other not in set().union(*LAYERS):
            continue
        assert layer(other) <= layer(me), f"{path} imports {name}, which lies above it"
        strangers = layer(other) == layer(me) and layer(me) in STRANGERS
        assert not strangers or (me, other) in ALLOWED_SIBLINGS, f"{path} imports its sibling {name}"


def test_recipes_import_only_what_they_may() -> None:
    for path in sources(ROOT / "recipes"):
        for name in imported(path, ROOT / "recipes", "orchard_cli.recipes"):
            parts = name.split(".")
            if parts[0] == "orchard_cli" and parts[1] != "recipes":
                assert parts[1] in RECIPES_MAY, f"{path} imports {name}"


def test_the_engine_names_no_domain() -> None:
    names = {p.parent.name for p in (ROOT / "recipes").glob("*/domain.yaml")}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in names, f"{path}:{node.lineno} names the domain {node.value}"


def modules() -> dict[str, set[str]]:
    """Module → modules of ours that it imports at module level or lazily."""
    known = {".".join(("orchard_cli", *p.relative_to(SRC).with_suffix("").parts)): p for p in sources()}
    known = {name.removesuffix(".__init__"): p for name, p in known.items()}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        targets = set()
        for target in imported(path):
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != name and target not in name.split(".") and target != "orchard_cli":
                targets.add(target)
        graph[name] = targets
    return graph


def test_there_is_no_import_cycle() -> None:
    graph, state = modules(), dict[str, int]()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) != 1, f"cycle: {' → '.join((*trail, name))}"
        if state.get(name) == 2:
            return
        state[name] = 1
        for target in graph[name]:
            # a package's own __init__ re-exports its modules; the module does not import it back
            visit(target, (*trail, name))
        state[name] = 2

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", [*sources(), *sources(ROOT / "recipes")], ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_keep_their_budget(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    page = path.name == "schema.py" or path.name.startswith("bodies")  # a table, not code with a flow
    assert lines <= (500 if page else FILE_LINES), f"{path.name} has {lines} lines"
    limit = STAGE_FUNCTION_LINES if "stages" in path.parts else FUNCTION_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= limit, f"{path.name}: {node.name} has {length} lines"


def test_settings_keep_their_budget_and_say_what_they_mean() -> None:
    from orchard_cli import schema
    from orchard_cli.compose import leaves

    keys = [key for key, _ in leaves(schema.Config)]
    assert len(keys) <= 120
    assert max(key.count(".") for key in keys) <= 2
    tree = ast.parse((SRC / "schema.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name != "Config":
            for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) != "Group":
                    said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    assert said, f"{node.name}.{ast.unparse(field.target)} has no line of meaning"


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, orchard_cli.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_banned_words_in_names() -> None:
    for path in sources():
        for word in ("utils", "common", "manager", "handler", "helper"):
            assert word not in path.stem.lower()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    assert word not in node.name.lower(), f"{path}: {node.name}"
