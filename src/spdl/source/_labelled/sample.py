"""The records that labelled sources consist of."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["ArraySample", "ImageSample", "MediaSample"]


class ArraySample(NamedTuple):
    """A file of arrays, or a part of one, and what belongs to it.

    Example:
        >>> from spdl.source import ArraySample
        >>> ArraySample("fox/1.npy", 0, "fox/1.npy", 7).label
        0
    """

    file: Any
    """What `spdl.dataloader.ArrayLoader` reads: a path or the bytes of an npy or npz file, or arrays by their names."""
    label: Any
    """The label, usually the number of a class; None without one, or where an array of the file has it."""
    path: str
    """The path of the file, or the name of the sample where it has no file of its own. Messages show it."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position in the source."""


class ImageSample(NamedTuple):
    """An image that is still encoded, and what belongs to it.

    Example:
        >>> from spdl.source import ImageList
        >>> ImageList([("cats/1.jpg", 0), ("dogs/1.jpg", 1)])[1]
        ImageSample(image='dogs/1.jpg', label=1, path='dogs/1.jpg', index=1)
    """

    image: Any
    """What `spdl.io.load_image_batch` takes: a path, or the bytes of a file."""
    label: Any
    """The label, usually the number of a class; None without one."""
    path: str
    """The path of the file, or the name of the image where it has no file of its own. Messages show it."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position in the source. Augmentations draw their random numbers by it."""


class MediaSample(NamedTuple):
    """A part of a video or a sound that is still encoded, and what belongs to it.

    Example:
        >>> from spdl.source import MediaList
        >>> MediaList([("a.wav", (0, 1), 5)])[0]
        MediaSample(media='a.wav', window=(0.0, 1.0), label=5, path='a.wav', index=0)
    """

    media: Any
    """What `spdl.io.load_video_batch` or `spdl.io.load_audio_batch` takes: a path, or the bytes of a file."""
    window: tuple[float, float] | None
    """The beginning and the end of the part in seconds; None for the whole file."""
    label: Any
    """The label, usually the number of a class; None without one."""
    path: str
    """The path of the file, or the name of the sample where it has no file of its own. Messages show it."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position in the source. Random windows are drawn by it."""
