"""Minibugs: small seeded Python projects with one bug and a failing test, and a teacher that repairs them."""

from .families import FAMILIES
from .generator import generate
from .project import tree
from .teacher import SLIPS, script

__all__ = ["FAMILIES", "SLIPS", "generate", "script", "tree"]
