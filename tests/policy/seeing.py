"""A tiny model that sees, pictures of one colour, and conversations about them; shared by tests of several folders."""

from io import BytesIO
from pathlib import Path

from PIL import Image
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from orchard_cli import schema
from orchard_cli.policy import made
from orchard_cli.policy.sight import Sight
from orchard_cli.trajectory import Blobs, Message

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 60, 220), "white": (245, 245, 245)}
SEES = schema.Model(kind="tiny_vl", hidden=48, layers=2, heads=2, ffn=64, vocab=420)


def png(colour: tuple[int, int, int], width: int = 64, height: int = 64) -> bytes:
    out = BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return out.getvalue()


def conversation(images: list[str], answers: list[str]) -> list[Message]:
    """A question with each picture; the last answer may be missing."""
    messages = []
    for at, sha in enumerate(images):
        messages.append(Message("user", f"colour {at}?", images=(sha,)))
        messages += [Message("assistant", answers[at])] if at < len(answers) else []
    return messages


def build(
    root: Path, cfg: schema.Model = SEES, *, keep: int = 3, seed: int = 0
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, Sight]:
    """Model, tokenizer and sight, with blobs under `root`."""
    replies = list(COLOURS) * 20
    model, tokenizer, processor = made.build(cfg, ["colour 0?", "colour 1?"] * 20 + replies, replies, seed)
    return model, tokenizer, Sight(model.config, processor, Blobs(root), keep)
