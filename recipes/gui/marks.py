"""Set-of-marks: a numbered box around every element that has an id."""

import io
from collections.abc import Sequence

COLORS = ("#d00000", "#0050d0", "#008000", "#a000a0", "#b06000", "#007080")


def marked(png: bytes, rects: Sequence[Sequence[int]]) -> bytes:
    """The picture with `rects` (id, x, y, width, height in pixels) drawn in, as PNG."""
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(png)).convert("RGB")
    draw = ImageDraw.Draw(image)
    for id, x, y, width, height in rects:
        color = COLORS[id % len(COLORS)]
        draw.rectangle((x, y, x + max(width - 1, 1), y + max(height - 1, 1)), outline=color)
        label = str(id)
        left, top, right, bottom = draw.textbbox((0, 0), label)
        at = (min(max(x, 0), image.width - right - 2), max(y - bottom - 1, 0))
        draw.rectangle((at[0], at[1], at[0] + right + 1, at[1] + bottom + 1), fill=color)
        draw.text((at[0] + 1, at[1]), label, fill="white")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
