"""Public benchmarks of web agents: their task files, filters, near-duplicates, and their result layouts."""

from .alike import distinct, unlike
from .benchmarks import KINDS, Loaded, load
from .choose import Filter, choose
from .rows import Problem

__all__ = ["KINDS", "Filter", "Loaded", "Problem", "choose", "distinct", "load", "unlike"]
