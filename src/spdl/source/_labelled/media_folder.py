"""Folders of videos and of sounds with a sub-folder for each class."""

from __future__ import annotations

from typing import ClassVar

from spdl.source._labelled.class_folder import ClassFolder
from spdl.source._labelled.sample import MediaSample

__all__ = ["AudioFolder", "VideoFolder"]


class VideoFolder(ClassFolder[MediaSample]):
    """The videos of a folder that has a sub-folder for each class: ``root/run/1.mp4``, ``root/swim/5.webm``.

    Classes, numbers and order follow the rules of `ImageFolder`, which describes the arguments. It is a sequence of
    `MediaSample` records whose windows are the whole of each file, and a source of `spdl.dataloader.ClipLoader`.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as videos, in any case. None are those of common containers, such as
            .mp4, .mkv, .webm, .mov and .avi.
        is_valid_file: Instead of `extensions`, called with each file's path; it returns whether the file counts.
        allow_empty: Whether a class may have no video.
        hidden: Whether files and folders count whose names begin with a dot.
        class_to_idx: The numbers of the classes by the names of their folders. None numbers all folders.

    Raises:
        TypeError, ValueError, FileNotFoundError, NotADirectoryError: As `ImageFolder`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import VideoFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("run/1.mp4", "swim/1.webm"):
        ...         Path(root, name).parent.mkdir()
        ...         Path(root, name).touch()
        ...     folder = VideoFolder(root)
        >>> folder.classes, folder[1].label, folder[1].window
        (['run', 'swim'], 1, None)
    """

    default_extensions: ClassVar[tuple[str, ...]] = (
        *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".flv", ".wmv"),
        *(".3gp", ".ogv"),
    )
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "videos"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> MediaSample:
        return MediaSample(path, None, label, path, index)


class AudioFolder(ClassFolder[MediaSample]):
    """The sounds of a folder that has a sub-folder for each class: ``root/yes/1.wav``, ``root/no/5.flac``.

    Classes, numbers and order follow the rules of `ImageFolder`, which describes the arguments. It is a sequence of
    `MediaSample` records whose windows are the whole of each file, and a source of `spdl.dataloader.AudioLoader`.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as sounds, in any case. None are those of common containers, such as
            .wav, .flac, .mp3, .ogg, .opus and .m4a.
        is_valid_file: Instead of `extensions`, called with each file's path; it returns whether the file counts.
        allow_empty: Whether a class may have no sound.
        hidden: Whether files and folders count whose names begin with a dot.
        class_to_idx: The numbers of the classes by the names of their folders. None numbers all folders.

    Raises:
        TypeError, ValueError, FileNotFoundError, NotADirectoryError: As `ImageFolder`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import AudioFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("no/1.flac", "yes/1.wav"):
        ...         Path(root, name).parent.mkdir()
        ...         Path(root, name).touch()
        ...     folder = AudioFolder(root)
        >>> folder.classes, folder[1].label, folder[1].window
        (['no', 'yes'], 1, None)
    """

    default_extensions: ClassVar[tuple[str, ...]] = (
        *(".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".wma", ".ac3", ".mka"),
    )
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "sounds"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> MediaSample:
        return MediaSample(path, None, label, path, index)
