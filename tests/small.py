"""A policy so small that whole runs fit into a test."""

SMALL_MODEL = [
    "model.hidden=32",
    "model.layers=1",
    "model.ffn=64",
    "model.heads=2",
    "model.vocab=300",
    "model.threads=1",
]
