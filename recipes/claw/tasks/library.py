"""Families by name: those that come with the domain, or those of a file or folder."""

from functools import cache
from pathlib import Path

from .family import Family, family
from .reading import FieldError, Problem, documents, files

SHIPPED = Path(__file__).with_name("families")


@cache
def shipped() -> dict[str, Family]:
    """The domain's own families. They are held to be right: a fault in them is an error of ours."""
    found, problems = load(SHIPPED)
    if problems:
        raise FieldError("", f"a shipped family is wrong: {problems[0]}")
    return found


def load(path: Path) -> tuple[dict[str, Family], list[Problem]]:
    """Families of a file or folder by name, and what is wrong with the others. Raises `DataError`."""
    found: dict[str, Family] = {}
    problems: list[Problem] = []
    for file in files(path):
        for number, page in documents(file):
            if isinstance(page, Problem):
                problems.append(page)
                continue
            try:
                made = family(page, str(file), number)
                if made.name in found:
                    raise FieldError("family", f"`{made.name}` is there twice, also in {found[made.name].file}")
                found[made.name] = made
            except FieldError as error:
                problems.append(Problem(str(file), number, error.field, error.message))
    return found, problems
