"""Which part of a file is loaded: where its stream begins and ends, what is drawn of that, and why a file cannot be."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from spdl._check import show
from spdl._random_key import random_key
from spdl.io import AudioReader, DemuxConfig, VideoReader
from spdl.io._shared import Readable, parse_window, resolve

# So many are remembered, some 20 MB.
_MOST = 100_000


class Span(NamedTuple):
    """The beginning of the first frame or sample of a stream, and the end of the last one, on the file's clock."""

    begin: float
    end: float


class Loaded(NamedTuple):
    """The array of a batch, the length of each part, the most that one can have, and the reasons why parts failed."""

    array: np.ndarray[Any, Any]
    lengths: np.ndarray[Any, Any]
    most: int
    reasons: dict[int, str]


Load: TypeAlias = Callable[[list[Any], "list[tuple[float, float]]"], Loaded]


Sampling: TypeAlias = Literal["random", "center", "start"]


# Separates these random numbers from others of the same sample.
_PURPOSE = 4


class Windows:
    """Chooses the part of each file to load, within its stream and the sample's window. A shorter one is taken whole.

    The header does not tell where a stream is: it may be of another stream, or a guess. To find it takes a look at all
    packets of a file, without decoding them, so what was found for a path is remembered until the file changes. If a
    part begins where the window does, it is needed only if the part turns out to be short: the stream may begin later.
    Several threads call it at once.
    """

    def __init__(
        self, sampling: Sampling, seconds: float, seed: int, *, audio: bool, demux_config: DemuxConfig | None = None
    ) -> None:
        self._sampling = sampling
        self._seconds = seconds
        self._seed = seed
        self._audio = audio
        self._demux_config = demux_config
        self._known: dict[tuple[str, int, int], Span | None] = {}

    def choose(self, columns: Mapping[str, list[Any]], epoch: int) -> list[tuple[float, float]]:
        media, indices = columns["media"], columns["index"]
        windows = columns.get("window") or [None] * len(media)
        return [self._choose(*each, epoch) for each in zip(media, windows, indices, strict=True)]

    def load(
        self, columns: Mapping[str, list[Any]], epoch: int, load: Load
    ) -> tuple[Loaded, list[tuple[float, float]]]:
        """Choose parts and load them. Return these, and where they are."""
        media = columns["media"]
        parts = self.choose(columns, epoch)
        loaded = load(media, parts)
        if self._sampling == "start" and (late := self._find_late(columns, parts, loaded)):
            again = load([media[place] for place in late], list(late.values()))
            for number, (place, part) in enumerate(late.items()):
                parts[place] = part
                loaded.array[place] = again.array[number]
                loaded.lengths[place] = again.lengths[number]
                loaded.reasons.pop(place, None)
                if number in again.reasons:
                    loaded.reasons[place] = again.reasons[number]
        return loaded, parts

    def _find_late(
        self, columns: Mapping[str, list[Any]], parts: Sequence[tuple[float, float]], loaded: Loaded
    ) -> dict[int, tuple[float, float]]:
        """Return where parts should be that begin before their stream does, by their places in the batch."""
        late = {}
        windows = columns.get("window") or [None] * len(parts)
        for place, (window, (begin, end), length) in enumerate(zip(windows, parts, loaded.lengths, strict=True)):
            if window is None or length >= loaded.most or end >= window[1]:
                continue
            span = self._find(columns["media"][place])
            if span is not None and begin < span.begin < window[1]:
                late[place] = span.begin, min(span.begin + self._seconds, window[1])
        return late

    def _choose(self, media: Any, window: tuple[float, float] | None, index: int, epoch: int) -> tuple[float, float]:
        seconds = self._seconds
        least, most = (-math.inf, math.inf) if window is None else window
        if self._sampling == "start" and math.isfinite(least):
            return least, min(least + seconds, most)
        begin, end = self._find(media) or (0.0, 0.0)
        begin, end = max(begin, least), min(end, most)
        if not begin < end and window is not None:
            # The stream has nothing in the window, which loading reports.
            begin, end = least, most
        room = max(end - begin - seconds, 0.0)
        if self._sampling == "start":
            share = 0.0
        elif self._sampling == "center":
            share = 0.5
        else:
            key = random_key(random_key(self._seed, epoch, index), _PURPOSE, 0)
            share = random.Random(key).random()  # noqa: S311
        first = begin + share * room
        return first, min(first + seconds, most)

    def _find(self, media: Any) -> Span | None:
        """Return the span of a file's stream; None if it cannot be read: loading it then reports the error."""
        if hasattr(media, "read"):
            # It can be read once only.
            return None
        key = _identify(media)
        if key is None:
            return self._look(media)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[key] = self._look(media)
            return found

    def _look(self, media: Any) -> Span | None:
        try:
            if self._audio:
                sound = AudioReader(media, demux_config=self._demux_config)
                begin = sound.start_time
                return Span(begin, begin + sound.duration)
            video = VideoReader(media, demux_config=self._demux_config)
            begin = float(video.timestamps[0])
            return Span(begin, begin + video.duration)
        except (OSError, RuntimeError, IndexError):
            return None


def _identify(media: Any) -> tuple[str, int, int] | None:
    if not isinstance(media, str | os.PathLike):
        return None
    path = os.fsdecode(media)
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return path, found.st_size, found.st_mtime_ns


DECODED = (
    "It is decoded already, and this loader decodes itself: give it the encoded bytes, or take PyTorchDataLoader for "
    "samples that a function of yours decodes"
)
"""What the reason for a sample adds if it has an array in the place of a file."""

IN_MEMORY = "It is an array already: pass `load=numpy.asarray`, and it is taken as it is"
"""The same for `ArrayLoader`."""

SWAPPED = "A sample is a path, a pair (file, label) or a record; spdl.source.MediaList takes triples with a window"
"""What the reason adds if it has a number or a tuple there."""

NO_ONE_CASE = (DECODED, IN_MEMORY, SWAPPED)
"""What is wrong with all samples of a source, so that leaving such samples out would leave nothing."""


def find_fault(columns: Mapping[str, list[Any]], place: int, *, files: bool) -> str | None:
    if fault := find_fault_of_file("media", columns["media"][place], files=files):
        return fault
    windows = columns.get("window")
    window = windows and windows[place]
    try:
        parse_window("window", window)
    except (TypeError, ValueError):
        return f"`window` must be (start, end) in seconds, a microsecond or more apart, or None, got {show(window)}"
    return None


def find_fault_of_file(field: str, media: Any, *, files: bool) -> str | None:
    if _is_input(media, files=files):
        return None
    accepted = "a path or the bytes of a file" + (", or an open binary file" if files else "")
    # Arrays, tensors and images of Pillow.
    is_decoded = any(hasattr(type(media), name) for name in ("__array__", "__array_interface__"))
    hint = DECODED if is_decoded else SWAPPED if isinstance(media, Number | tuple) else ""
    return f"`{field}` must be {accepted}, got {show(media)}{hint and f'. {hint}'}"


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


# Where the bytes are, what they are, what such a file is called, and what loads it.
_FORMATS = (
    (0, b"\xff\xd8\xff", "a JPEG image", "ImageLoader"),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", "ImageLoader"),
    (0, b"GIF8", "a GIF image", "ImageLoader"),
    (8, b"WEBPVP8", "a WebP image", "ImageLoader"),
    (0, b"II*\0", "a TIFF image", "ImageLoader"),
    (0, b"MM\0*", "a TIFF image", "ImageLoader"),
    (4, b"ftypavif", "an AVIF image", "ImageLoader"),
    (4, b"ftyphei", "a HEIC image", "ImageLoader"),
    (4, b"ftyp", "an MP4 file", "ClipLoader"),
    (8, b"WAVEfmt ", "a WAV file", "AudioLoader"),
    (0, b"fLaC", "a FLAC file", "AudioLoader"),
    (0, b"PAR1", "a Parquet file", "TableLoader"),
    (257, b"ustar", "a tar archive", "ImageLoader with ImageShards"),
)
_HEAD = 262


def name_format(file: Any) -> tuple[str, str] | None:
    """Return what a file is, and what loads it; None if that is not known, or it cannot be read."""
    if isinstance(file, str | os.PathLike):
        try:
            with open(file, "rb") as opened:  # noqa: PTH123
                head = opened.read(_HEAD)
        except (OSError, ValueError):
            return None
    else:
        head = bytes(memoryview(file)[:_HEAD])
    found = (each[2:] for each in _FORMATS if head.startswith(each[1], each[0]))
    return next(found, None)
