"""One photo, decoded and resized by OpenCV or Pillow, for loaders that leave this to other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from measure import SIZE
from pixels import normalise

if TYPE_CHECKING:
    from collections.abc import Callable


def by_opencv() -> Callable[[str], np.ndarray[Any, Any]]:
    """Return a function that loads a photo with OpenCV, by area averaging: its bilinear filter has no antialiasing."""
    import cv2  # noqa: PLC0415 - each contender's process has only its own library.

    # The loader's workers are the threads. OpenCV's own would come on top.
    cv2.setNumThreads(1)
    read = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION

    def load(path: str) -> Any:
        return cv2.resize(cv2.imread(path, read), (SIZE, SIZE), interpolation=cv2.INTER_AREA)

    return load


def by_pillow() -> Callable[[str], np.ndarray[Any, Any]]:
    """Return a function that loads a photo with Pillow."""
    from PIL import Image  # noqa: PLC0415

    def load(path: str) -> np.ndarray[Any, Any]:
        with Image.open(path) as file:
            image = file.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        # A copy, because PyTorch warns about read-only memory.
        return np.array(image)

    return load


def batch_loader(load: Callable[[str], np.ndarray[Any, Any]], step: str) -> Callable[[list[str]], Any]:
    """Return a function that loads a batch in one thread, photo by photo."""

    def load_batch(paths: list[str]) -> np.ndarray[Any, Any]:
        batch = np.empty((len(paths), SIZE, SIZE, 3), np.uint8)
        for path, place in zip(paths, batch, strict=True):
            place[:] = load(path)
        return normalise(batch) if step == "normalise" else batch

    return load_batch
