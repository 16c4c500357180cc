"""Benchmarks of other people, read as they are distributed."""
