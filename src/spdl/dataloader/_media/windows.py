"""Which part of a file is loaded: drawn at random, or always the same."""

from __future__ import annotations

import math
import os
import random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import show
from spdl._random_key import random_key
from spdl.io._av.time_window import parse_window
from spdl.io._common.inputs import Readable, resolve

if TYPE_CHECKING:
    from spdl.dataloader._media.spans import Spans

__all__ = ["DECODED", "Sampling", "choose_window", "find_fault", "find_fault_of_file"]

Sampling: TypeAlias = Literal["random", "center", "start"]

DECODED = (
    "It is decoded already, and this loader decodes itself: give it the encoded bytes, or take PyTorchDataLoader for "
    "samples that a function of yours decodes"
)
"""What the reason for a sample adds if it has an array in the place of a file."""

# What tells these random numbers from others of the same sample.
_PURPOSE = 4


def find_fault(media: Any, window: Any, *, files: bool) -> str | None:
    """Return why a sample cannot be asked for: its medium is no input, or its window makes no sense; None if it can.

    Args:
        media: The medium.
        window: The window, or None.
        files: Whether open files are read.
    """
    if fault := find_fault_of_file("media", media, files=files):
        return fault
    try:
        parse_window("window", window)
    except (TypeError, ValueError):
        return f"`window` must be (start, end) in seconds, a microsecond or more apart, or None, got {show(window)}"
    return None


def find_fault_of_file(field: str, media: Any, *, files: bool) -> str | None:
    """Return why a field of a sample is no input; None if it is one.

    Args:
        field: The name of the field.
        media: What it holds.
        files: Whether open files are read.
    """
    if _is_input(media, files=files):
        return None
    accepted = "a path or the bytes of a file" + (", or an open binary file" if files else "")
    # Arrays, tensors and images of Pillow.
    is_decoded = any(hasattr(type(media), name) for name in ("__array__", "__array_interface__"))
    return f"`{field}` must be {accepted}, got {show(media)}{f'. {DECODED}' if is_decoded else ''}"


def _is_input(media: Any, *, files: bool) -> bool:
    if isinstance(media, str | bytes | os.PathLike):
        return True
    if isinstance(media, memoryview) and media.format == "B" and media.ndim == 1 and media.c_contiguous:
        # Parts of mapped files: quicker than asking whether it is a file.
        return True
    if files and isinstance(media, Readable):
        return True
    try:
        resolve(media, "media", files=False)
    except TypeError:
        return False
    return True


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
