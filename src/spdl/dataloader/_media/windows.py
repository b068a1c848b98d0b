"""Which part of a file is loaded: drawn at random, or always the same."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._random_key import random_key

if TYPE_CHECKING:
    from spdl.dataloader._media.spans import Spans

__all__ = ["Sampling", "choose_window"]

Sampling: TypeAlias = Literal["random", "center", "start"]

# What tells these random numbers from others of the same sample.
_PURPOSE = 4


def choose_window(
    media: Any,
    window: tuple[float, float] | None,
    seconds: float,
    sampling: Sampling,
    spans: Spans,
    *,
    seed: int,
    epoch: int,
    index: int,
) -> tuple[float, float]:
    """Return the beginning and the end of the part of a sample's window that is to be loaded.

    Args:
        media: The file, which is looked at to find out where its stream is, unless its window says enough.
        window: The window of the sample; None is the whole stream.
        seconds: How long the part is to be. A shorter window is taken as it is.
        sampling: Where in the window, as far as the stream reaches, it lies.
        spans: Finds where the stream is.
        seed: The seed of the run.
        epoch: The number of the epoch.
        index: The position of the sample in its source.
    """
    least, most = (-math.inf, math.inf) if window is None else window
    if sampling == "start" and math.isfinite(least):
        return least, min(least + seconds, most)
    begin, end = spans.find(media) or (0.0, 0.0)
    begin, end = max(begin, least), min(end, most)
    if not begin < end and window is not None:
        # None of it is there, which whoever loads it says.
        begin, end = least, most
    room = max(end - begin - seconds, 0.0)
    if sampling == "start":
        share = 0.0
    elif sampling == "center":
        share = 0.5
    else:
        share = random.Random(random_key(random_key(seed, epoch, index), _PURPOSE, 0)).random()  # noqa: S311
    first = begin + share * room
    return first, min(first + seconds, most)
