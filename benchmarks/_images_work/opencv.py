"""OpenCV, which decodes and resizes one image after the other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import cv2
import numpy as np
from crops import draw_crop
from measure import SIZE, Figures, batches, on_one_thread, photos, whole_loader
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

# OpenCV's bilinear filter shrinks without antialiasing. Area averaging is its method with antialiasing.
INTERPOLATIONS = {"linear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}
READ = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION


def one_thread(*, folder: str, images: int, workers: int, interpolation: str) -> Figures:
    """Decode bytes in memory, resize and batch in the calling thread."""
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    cv2.setNumThreads(1)
    read = {path: np.fromfile(path, np.uint8) for path in photos(folder)}

    def load(batch: list[str]) -> None:
        out = np.empty((len(batch), SIZE, SIZE, 3), np.uint8)
        for path, place in zip(batch, out, strict=True):
            image = cv2.imdecode(read[path], READ)
            cv2.resize(image, (SIZE, SIZE), dst=place, interpolation=INTERPOLATIONS[interpolation])

    return on_one_thread(load, folder, images)


def loader(*, folder: str, images: int, workers: int, interpolation: str, crop: bool = False) -> Figures:
    """Read, decode, resize and batch in a pool of threads, each of which makes whole batches."""
    # The pool's threads are the workers. OpenCV's own threads would come on top.
    cv2.setNumThreads(1)
    paths = photos(folder)
    how = INTERPOLATIONS[interpolation]
    chance = random.Random(0)  # noqa: S311

    def load(batch: list[str]) -> int:
        out = np.empty((len(batch), SIZE, SIZE, 3), np.uint8)
        for path, place in zip(batch, out, strict=True):
            image = cv2.imread(path, READ)
            if crop:
                left, top, right, bottom = draw_crop(chance, image.shape[1], image.shape[0])
                image = image[top:bottom, left:right]
            cv2.resize(image, (SIZE, SIZE), dst=place, interpolation=how)
            if crop and chance.random() < 1 / 2:
                cv2.flip(place, 1, dst=place)
        return len(out)

    def run(number: int) -> Iterator[int]:
        return in_threads(load, batches(paths, number), workers)

    return whole_loader(run, images)
