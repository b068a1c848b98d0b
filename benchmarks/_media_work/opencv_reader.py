"""OpenCV, with one thread for the decoder. Its bilinear filter does not antialias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

cv2.setNumThreads(1)


def load(path: str, size: int) -> int:
    """Load a whole clip, stretched to a size."""
    frames = [cv2.cvtColor(cv2.resize(frame, (size, size)), cv2.COLOR_BGR2RGB) for frame in _frames(_open(path))]
    return len(np.stack(frames))


def decode(path: str) -> int:
    """Decode a whole clip."""
    capture, frames = _open(path), 0
    while capture.grab():
        frames += 1
    return frames


def opened(path: str) -> tuple[int, Callable[[list[int]], Any]]:
    """Open a clip. OpenCV keeps no index, and decodes from a key frame that it guesses."""
    capture = _open(path)

    def get(chosen: list[int]) -> Any:
        found = []
        for index in chosen:
            capture.set(cv2.CAP_PROP_POS_FRAMES, index)
            found.append(cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB))
        return np.stack(found)

    return int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), get


def _frames(capture: Any) -> Iterator[Any]:
    while (it := capture.read())[0]:
        yield it[1]


def _open(path: str) -> Any:
    return cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
