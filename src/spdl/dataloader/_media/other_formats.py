"""What a file is that a loader cannot read, by its first bytes: for messages."""

from __future__ import annotations

import os
from typing import Any

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
