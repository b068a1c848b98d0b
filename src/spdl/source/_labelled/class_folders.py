"""Labelled media in folders whose names are the labels."""

from __future__ import annotations

import abc
import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from spdl._check import check_flag, check_path, refuse, shown, shown_place
from spdl._not_here import refuses
from spdl.io._shared import is_url
from spdl.source._labelled.lists import (
    ArraySample,
    ImageSample,
    MediaSample,
    Samples,
    check_extensions,
    find_classes,
    fingerprint,
    list_files,
)
from spdl.source._place import listed_folder

Sample = TypeVar("Sample")

_SHOWN = 5


class ClassFolder(Samples[Sample]):
    """The base of `ImageFolder` and its relatives, which document the arguments."""

    default_extensions: ClassVar[tuple[str, ...]]
    """The endings of names that count if no others are given."""
    media: ClassVar[str]
    """What the files are called."""

    @abc.abstractmethod
    def _make(self, path: str, label: int, index: int) -> Sample:
        """Return the record of a file."""

    @refuses(dict.fromkeys(("target_transform", "transform"), "pass `transform` to the loader, such as ImageLoader"))
    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        extensions: Iterable[str] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        hidden: bool = True,
        class_to_idx: Mapping[str, int] | None = None,
    ) -> None:
        check_path("root", root)
        check_flag("allow_empty", allow_empty)
        check_flag("hidden", hidden)
        self.root = os.fsdecode(root)
        if self.root.startswith("file://"):
            self.root = listed_folder(self.root).path
        endings = check_extensions(extensions) or self.default_extensions
        if is_valid_file is not None:
            if extensions is not None:
                refuse(ValueError, "is_valid_file", "None with `extensions`, which says what counts", is_valid_file)
            if not callable(is_valid_file):
                refuse(TypeError, "is_valid_file", "a function of a path, or None", is_valid_file)
        listed: dict[str, list[str]] | None = None
        if is_url(self.root):
            self.root, listed = _list_objects(self.root, hidden=hidden)
        found = find_classes(self.root, hidden=hidden) if listed is None else list(listed)
        self.class_to_idx: dict[str, int] = dict(
            zip(found, range(len(found)), strict=True) if class_to_idx is None else _check_numbers(class_to_idx)
        )
        self.classes: list[str] = found if class_to_idx is None else sorted(self.class_to_idx)
        self._paths: list[str] = []
        self._labels = array("q")
        empty = []
        for name in sorted(self.class_to_idx):
            if listed is not None:
                paths = listed.get(name, [])
            else:
                folder = os.path.join(self.root, name)  # noqa: PTH118 - millions of paths are listed.
                paths = list_files(folder, hidden=hidden) if name in found else []
            chosen = (
                [path for path in paths if path.lower().endswith(endings)]
                if is_valid_file is None
                else [path for path in paths if is_valid_file(path)]
            )
            self._paths += chosen
            self._labels.extend([self.class_to_idx[name]] * len(chosen))
            if not chosen:
                empty.append(name)
        if empty and not allow_empty:
            raise FileNotFoundError(_say_empty(self.root, empty, endings if is_valid_file is None else None))

    @property
    def samples(self) -> list[tuple[str, int]]:
        """A new list of paths and numbers of classes, as torchvision's attribute of this name."""
        return list(zip(self._paths, self._labels, strict=True))

    @property
    def targets(self) -> list[int]:
        """A new list of the numbers of the classes of all files."""
        return self._labels.tolist()

    def fingerprint(self) -> str:
        """Return a short text that says which files in which order these are, wherever the folder is."""
        skip = len(self.root)
        return fingerprint(
            type(self).__name__,
            len(self),
            lambda index: f"{self._paths[index][skip:].lstrip(os.sep)} {self._labels[index]}",
            self.classes,
        )

    def __len__(self) -> int:
        return len(self._paths)

    def _sample(self, position: int) -> Sample:
        return self._make(self._paths[position], self._labels[position], position)

    def __repr__(self) -> str:
        where = shown_place(self.root)
        return f"{type(self).__name__}({where!r}): {len(self)} {self.media} of {len(self.classes)} classes"


def _check_numbers(class_to_idx: Any) -> dict[str, int]:
    accepted = "the numbers of classes by the names of their folders"
    if not hasattr(class_to_idx, "items"):
        refuse(TypeError, "class_to_idx", accepted, class_to_idx)
    if not class_to_idx:
        refuse(ValueError, "class_to_idx", f"{accepted}, at least one", class_to_idx)
    for name, number in class_to_idx.items():
        if not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int):
            refuse(TypeError, "class_to_idx", accepted, class_to_idx)
    return dict(class_to_idx)


def _say_empty(root: str, empty: list[str], endings: tuple[str, ...] | None) -> str:
    more = len(empty) - _SHOWN
    names = ", ".join(map(repr, empty[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
    accepted = "that `is_valid_file` accepts" if endings is None else f"with the ending {', '.join(endings)}"
    return (
        f"In {shown_place(root)!r}, no file {accepted} is in the folders of the classes {names}. Remove these folders, "
        "or pass `allow_empty=True` to keep the classes."
    )


class VideoFolder(ClassFolder[MediaSample]):
    """The videos of a folder that has a sub-folder for each class: ``root/run/1.mp4``, ``root/swim/5.webm``.

    Classes, numbers and order follow the rules of `ImageFolder`, which describes the arguments. It is a sequence of
    `MediaSample` records whose windows are the whole of each file, and a source of `spdl.dataloader.ClipLoader`.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as videos, in any case. None means the endings of common containers,
            such as .mp4, .mkv, .webm, .mov and .avi.
        is_valid_file, allow_empty, hidden, class_to_idx: As for `ImageFolder`.

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
        extensions: The endings of names that count as sounds, in any case. None means the endings of common containers,
            such as .wav, .flac, .mp3, .ogg, .opus and .m4a.
        is_valid_file, allow_empty, hidden, class_to_idx: As for `ImageFolder`.

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


class ArrayFolder(ClassFolder[ArraySample]):
    """The npy and npz files of a folder that has a sub-folder for each class: ``root/fox/1.npy``, ``root/owl/5.npz``.

    Classes, numbers and order follow the rules of `ImageFolder`, which describes the arguments. It is a sequence of
    `ArraySample` records, and a source of `spdl.dataloader.ArrayLoader`.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as arrays, in any case. None are .npy and .npz.
        is_valid_file, allow_empty, hidden, class_to_idx: As for `ImageFolder`.

    Raises:
        TypeError, ValueError, FileNotFoundError, NotADirectoryError: As `ImageFolder`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import ArrayFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("fox/1.npy", "owl/1.npz"):
        ...         Path(root, name).parent.mkdir()
        ...         Path(root, name).touch()
        ...     folder = ArrayFolder(root)
        >>> folder.classes, folder[1].label, Path(folder[1].file).name
        (['fox', 'owl'], 1, '1.npz')
    """

    default_extensions: ClassVar[tuple[str, ...]] = (".npy", ".npz")
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "files of arrays"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> ArraySample:
        return ArraySample(path, label, path, index)


IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The endings of file names that torchvision's `ImageFolder` takes for images."""


class ImageFolder(ClassFolder[ImageSample]):
    """The images of a folder that has a sub-folder for each class: ``root/cat/1.jpg``, ``root/dog/2021/5.png``.

    Classes, their numbers and the order of the images are as in torchvision's ``ImageFolder``: the folders in `root`
    are the classes, numbered in the sorted order of their names. A class has all images below its folder, in the sorted
    order of the folders' paths and then of the names. Links are followed. The constructor lists the folders and opens
    no image.

    It is a sequence of `ImageSample` records. It can be a source of `spdl.dataloader.ImageLoader` or of a pipeline.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as images, with their dots, in any case. None are torchvision's:
            .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff and .webp.
        is_valid_file: Instead of `extensions`, called with each file's path; it returns whether the file counts.
        allow_empty: Whether a class may have no image. By default that is an error, because it is usually a mistake.
        hidden: Whether files and folders count whose names begin with a dot, as they do in torchvision. False leaves
            out ``.ipynb_checkpoints``, which would be a class, and ``._1.jpg``.
        class_to_idx: The numbers of the classes by the names of their folders. Folders that it does not name are left
            out. None numbers all folders.

    Attributes:
        root: The folder.
        classes: The names of the classes, in sorted order.
        class_to_idx: The number of each class by its name.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `extensions` and `is_valid_file` are both given, or a link leads back to a folder around it.
        FileNotFoundError: If there is no such folder, it has no sub-folder, or a class has no image.
        NotADirectoryError: If `root` is not a folder.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import ImageFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("cats/1.jpg", "dogs/1.jpg", "dogs/2.jpg"):
        ...         Path(root, name).parent.mkdir(exist_ok=True)
        ...         Path(root, name).touch()
        ...     folder = ImageFolder(root)
        >>> folder.classes, len(folder), folder[2].label, Path(folder[2].path).name
        (['cats', 'dogs'], 3, 1, '2.jpg')
    """

    default_extensions: ClassVar[tuple[str, ...]] = IMAGE_EXTENSIONS
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "images"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> ImageSample:
        return ImageSample(path, label, path, index)


def _list_objects(root: str, *, hidden: bool) -> tuple[str, dict[str, list[str]]]:
    """Return the URL that the files begin with, and for each class its files, in the order of `list_files`."""
    from spdl.store import split_url  # noqa: PLC0415 - only for those who have a URL.

    base = split_url(root)[0]
    place = listed_folder(root)
    assert place.store is not None
    folder = f"{base}/{place.path}".rstrip("/")
    skip = len(place.path) + 1 if place.path else 0
    found: dict[str, list[tuple[str, str]]] = {}
    entry = None
    for entry in place.store.list(place.path):
        if len(entry.path) < skip:
            raise NotADirectoryError(f"`root` must be a folder, but {shown(root)!r} is not one.")
        below = entry.path[skip:]
        name, slash, rest = below.partition("/")
        if not slash or (name.startswith(".") and not hidden):
            continue
        files = found.setdefault(name, [])
        # Some programs make empty objects to show folders.
        if not below.endswith("/") and (hidden or not any(part.startswith(".") for part in rest.split("/"))):
            around, _, last = below.rpartition("/")
            files.append((around, last))
    if entry is None:
        raise FileNotFoundError(f"`root` must be a folder, but there is nothing at {shown(root)!r}.")
    if not found:
        raise FileNotFoundError(
            f"{shown(root)!r} has no folder in it: there must be one for each class, such as '{shown(root)}/cats'."
        )
    return (
        folder,
        {name: [f"{folder}/{around}/{last}" for around, last in sorted(found[name])] for name in sorted(found)},
    )
