"""Which domains there are: every folder with a `domain.yaml` on the recipes path. Listing them imports nothing."""

import ast
import importlib
import traceback
from pathlib import Path
from types import ModuleType

from . import recipes
from .errors import ConfigError, OrchardError


def find() -> dict[str, Path]:
    """Name → folder. A folder earlier on the path hides a later one of the same name."""
    missing = [place for place in recipes.yours if not place.is_dir()]
    if missing:
        raise ConfigError(
            f"$ORCHARD_RECIPES names {missing[0]}, which is no folder", hint="it holds folders of domains"
        )
    found: dict[str, Path] = {}
    for place in recipes.__path__:
        for file in sorted(Path(place).glob("*/domain.yaml")):
            found.setdefault(file.parent.name, file.parent)
    return dict(sorted(found.items()))


def about(folder: Path) -> str:
    """The first line of the domain's docstring, read without importing it."""
    return _first_line(folder / "__init__.py")


def commands(folder: Path) -> dict[str, str]:
    """Name → a line about it, of the commands that a domain has beside the stages: `commands/<name>.py`, with `run`.

    Such a module offers `run(context) -> Summary`, `READS` (sections of the configuration) and may offer `ALIASES`
    (short word → setting). Nothing is imported.
    """
    found = sorted((folder / "commands").glob("[a-z]*.py"))
    return {file.stem: _first_line(file) for file in found}


def _first_line(file: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(file.read_text()))
    except (OSError, SyntaxError):
        return ""
    return (text or "").split("\n")[0]


def load(name: str) -> ModuleType:
    """Import a domain; it must offer `Config` and `Domain`."""
    module = _imported(name, f"{recipes.__name__}.{name}")
    for needed in ("Config", "Domain"):
        if not hasattr(module, needed):
            raise ConfigError(f"domain `{name}` has no `{needed}`", hint='see CONTRIBUTING.md, "Add a domain"')
    return module


def command(name: str, verb: str) -> ModuleType | None:
    """The module of a domain's own command; None where the domain has none of that name."""
    if verb not in commands(find()[name]):
        return None
    return _imported(name, f"{recipes.__name__}.{name}.commands.{verb}")


def _imported(domain: str, module: str) -> ModuleType:
    """Whatever a domain's own code raises while it is imported is told as its author needs it."""
    try:
        return importlib.import_module(module)
    except (OrchardError, ModuleNotFoundError):  # a package that is not installed is named where commands end
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        file, line = last.filename, last.lineno
        if isinstance(error, SyntaxError):
            file, line = error.filename or file, error.lineno
        raise ConfigError(
            f"domain `{domain}` cannot be imported: {type(error).__name__}: {error}", hint=f"see {file}:{line}"
        ) from error
