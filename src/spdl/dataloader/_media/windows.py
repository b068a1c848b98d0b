"""Which part of a file is loaded: drawn at random, or always the same."""

from __future__ import annotations

import math
import random
from typing import Any, Literal, TypeAlias

from spdl._random_key import random_key
from spdl.io import Demuxer

__all__ = ["Sampling", "choose_window", "find_duration"]

Sampling: TypeAlias = Literal["random", "center", "start"]

# What tells these random numbers from others of the same sample.
_PURPOSE = 4


def find_duration(media: Any) -> float | None:
    """Return the seconds that a file lasts, as its header says; None if it says nothing, or cannot be read.

    Whoever loads the file then says what is wrong with it.
    """
    if hasattr(media, "read"):
        # It can be read once only.
        return None
    try:
        with Demuxer(media) as demuxer:
            return demuxer.duration
    except (OSError, RuntimeError):
        return None


def choose_window(
    media: Any,
    window: tuple[float, float] | None,
    seconds: float,
    sampling: Sampling,
    *,
    seed: int,
    epoch: int,
    index: int,
) -> tuple[float, float]:
    """Return the beginning and the end of the part of a sample's window that is to be loaded.

    Args:
        media: The file, whose header is read if its duration is needed.
        window: The window of the sample; None is the whole file.
        seconds: How long the part is to be. A shorter window is taken as it is.
        sampling: Where in the window it lies.
        seed: The seed of the run.
        epoch: The number of the epoch.
        index: The position of the sample in its source.
    """
    begin, end = (0.0, math.inf) if window is None else window
    if sampling == "start":
        return begin, min(begin + seconds, end)
    if math.isinf(end):
        end = find_duration(media) or 0.0
    room = max(end - begin - seconds, 0.0)
    if sampling == "center":
        share = 0.5
    else:
        share = random.Random(random_key(random_key(seed, epoch, index), _PURPOSE, 0)).random()  # noqa: S311
    first = begin + share * room
    return first, first + seconds if window is None else min(first + seconds, end)
