"""Pillow, image by image into a batch."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from measure import SIZE, Figures, on_one_thread, photos
from PIL import Image


def one_thread(*, folder: str, images: int, workers: int) -> Figures:
    """Decode bytes in memory, resize and batch in the calling thread."""
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    read = {path: Path(path).read_bytes() for path in photos(folder)}

    def load(batch: list[str]) -> None:
        out = np.empty((len(batch), SIZE, SIZE, 3), np.uint8)
        for path, place in zip(batch, out, strict=True):
            with Image.open(BytesIO(read[path])) as image:
                place[:] = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)

    return on_one_thread(load, folder, images)
