"""Labelled media by a list of their files, and what they are known by."""

from __future__ import annotations

import abc
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

from spdl._check import refuse

_SAMPLED = 1024


def fingerprint(kind: str, size: int, describe: Callable[[int], str], more: Iterable[str] = ()) -> str:
    """Return a short text that is the same for the same samples in the same order, wherever they are stored.

    It looks at 1,024 samples, spread evenly, so it takes no longer for a large dataset, and may miss a small change.
    What `describe` returns of a sample must not depend on the machine.
    """
    hasher = hashlib.sha256(f"{kind}\n{size}\n".encode())
    last = max(min(_SAMPLED, size) - 1, 1)
    for number in range(min(_SAMPLED, size)):
        hasher.update(f"{describe(number * (size - 1) // last)}\n".encode("utf-8", "surrogateescape"))
    for text in more:
        hasher.update(f"{text}\n".encode("utf-8", "surrogateescape"))
    return f"{kind}:{size}:{hasher.hexdigest()[:16]}"


Sample = TypeVar("Sample")


class Samples(Sequence[Sample]):
    """Samples by their index, or a list of them by a slice."""

    _called: ClassVar[str] = "samples"
    """The word for them in messages."""

    @abc.abstractmethod
    def _sample(self, position: int) -> Sample:
        """Return the sample at a position from 0 on."""

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self._sample(position) for position in range(*index.indices(len(self)))]
        position = index if index >= 0 else index + len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} {self._called}, got the index {index}")
        return self._sample(position)


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
    """The label, usually the number of a class; None without one, or if an array of the file has it."""
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


def find_classes(root: str, *, hidden: bool) -> list[str]:
    try:
        with os.scandir(root) as entries:
            classes = sorted(entry.name for entry in entries if entry.is_dir() and (hidden or entry.name[0] != "."))
    except FileNotFoundError:
        raise FileNotFoundError(f"`root` must be a folder, but there is nothing at {root!r}.") from None
    except NotADirectoryError:
        remedy = " Archives are read by ImageShards and TarShards." if root.lower().endswith(".tar") else ""
        raise NotADirectoryError(f"`root` must be a folder, but {root!r} is not one.{remedy}") from None
    if not classes:
        raise FileNotFoundError(
            f"{root!r} has no folder in it: there must be one for each class, such as {os.path.join(root, 'cats')!r}. "  # noqa: PTH118
            "For files without classes, pass a list of their paths to the loader."
        )
    return classes


def check_extensions(extensions: Any) -> tuple[str, ...] | None:
    if extensions is None:
        return None
    accepted = "endings of file names, such as ('.jpg', '.png'), or None"
    listed = (extensions,) if isinstance(extensions, str) else extensions
    if not isinstance(listed, Iterable):
        refuse(TypeError, "extensions", accepted, extensions)
    endings = tuple(listed)
    if not (endings and all(isinstance(each, str) and each for each in endings)):
        refuse(ValueError if not endings else TypeError, "extensions", accepted, extensions)
    return tuple(each.lower() for each in endings)


def list_files(folder: str, *, hidden: bool) -> list[str]:
    """Return the paths of all files below a folder, in the sorted order of the folders' paths and then of the names.

    A pipe, a socket or a device is not a file. A link to nothing is listed, so that it is missed when it is read.
    """
    found: list[tuple[str, list[str]]] = []
    # The folders still to list, each with the identities of those around it.
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        path, around = waiting.pop()
        state = os.stat(path)  # noqa: PTH116 - millions of paths are listed.
        identity = state.st_dev, state.st_ino
        if identity in around:
            raise ValueError(f"{path!r} is a link to a folder around it, so the files in it have no end: remove it.")
        names: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if not hidden and entry.name[0] == ".":
                    continue
                if entry.is_dir():
                    waiting.append((entry.path, around | {identity}))
                elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):  # noqa: PTH110
                    names.append(entry.name)
        found.append((path, sorted(names)))
    # Like torchvision, by the text of the path: "a-b" comes before "a/b".
    found.sort()
    return [f"{path}{os.sep}{name}" for path, names in found for name in names]


def _number(classes: Sequence[str] | None) -> tuple[list[str] | None, dict[str, int]]:
    names = None if classes is None else list(classes)
    numbers = {name: number for number, name in enumerate(names or ())}
    if len(numbers) != len(names or ()):
        refuse(ValueError, "classes", "names that differ from each other", classes)
    return names, numbers


def _checked(
    items: Any, called: str, parts: Sequence[str], classes: list[str] | None, numbers: dict[str, int]
) -> Iterator[tuple[Any, ...]]:
    accepted = f"{called}s ({', '.join(parts)})"
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        refuse(TypeError, "items", accepted, items)
    for position, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != len(parts):
            refuse(TypeError, f"items[{position}]", f"one of the {accepted}", item)
        file, *window, label = item
        if classes is not None:
            if label not in numbers:
                refuse(ValueError, f"items[{position}]", f"a {called} whose label is one of {classes}", item)
            label = numbers[label]
        yield os.fspath(file) if isinstance(file, os.PathLike) else file, *window, label


# In seconds; moments are compared as fractions with a denominator of at most 10**6. A little less for rounding.
_SHORTEST = 0.999e-6
_LARGEST = 1_000_000_000


class MediaList(Samples[MediaSample]):
    """Parts of videos or sounds and their labels: from a CSV file, a data frame, or a query.

    A file may be there several times with other windows: the scenes of a film, or the words of a recording.

    Args:
        items: Triples of a path, a window and a label. A window is ``(start, end)`` in seconds, or None for the whole
            file. A file may also be given by its bytes. The label may be any object.
        classes: The names of the classes, if labels are names: they are then replaced by their numbers in this order.
            None keeps labels unchanged.

    Attributes:
        classes: The names of the classes, or None.

    Raises:
        TypeError: If `items` is not iterable, or one of them is not a triple, or a window is not a pair of numbers.
        ValueError: If a window is empty, a label is not in `classes`, or a class is there twice.

    Example:
        >>> from spdl.source import MediaList
        >>> words = MediaList([("talk.flac", (0.5, 1.5), "yes"), ("talk.flac", (2, 3), "no")], classes=["no", "yes"])
        >>> words[1].window, words[1].label
        ((2.0, 3.0), 0)
    """

    def __init__(self, items: Iterable[tuple[Any, Any, Any]], *, classes: Sequence[str] | None = None) -> None:
        self.classes, numbers = _number(classes)
        triples = _checked(items, "triple", ("path", "window", "label"), self.classes, numbers)
        self._items: list[tuple[Any, tuple[float, float] | None, Any]] = [
            (media, _to_window(position, window), label) for position, (media, window, label) in enumerate(triples)
        ]

    def fingerprint(self) -> str:
        """Return a short text that identifies the parts of files and their order."""
        return fingerprint(
            "MediaList", len(self), lambda index: f"{self._name(index)} {self._items[index][1]} {self._items[index][2]}"
        )

    def __len__(self) -> int:
        return len(self._items)

    def _sample(self, position: int) -> MediaSample:
        media, window, label = self._items[position]
        return MediaSample(media, window, label, self._name(position), position)

    def __repr__(self) -> str:
        return f"MediaList of {len(self)} parts"

    def _name(self, index: int) -> str:
        media = self._items[index][0]
        return media if isinstance(media, str) else f"media {index}"


def _to_window(position: int, window: Any) -> tuple[float, float] | None:
    if window is None:
        return None
    accepted = "a triple whose window is (start, end) in seconds, or None"
    name = f"items[{position}]"
    if isinstance(window, str | bytes):
        refuse(TypeError, name, accepted, window)
    try:
        start, end = (float(moment) for moment in window)
    except (TypeError, ValueError):
        refuse(TypeError, name, accepted, window)
    if not (0 <= start < end < float("inf") and end - start >= _SHORTEST and end <= _LARGEST):
        refuse(
            ValueError, name, f"{accepted}, with 0 <= start < end <= {_LARGEST}, a microsecond or more apart", window
        )
    return start, end


class ImageList(Samples[ImageSample]):
    """Images and labels from a list of pairs: from a CSV file, a data frame, or a query.

    It is a sequence of `ImageSample` records, as `ImageFolder` is.

    Args:
        items: Pairs of a path and a label. An image may also be the bytes of a file. The label may be any object; ints
            and floats make an array in a batch, other objects a list.
        classes: The names of the classes, if labels are names: they are then replaced by their numbers in this order.
            None keeps labels unchanged.

    Attributes:
        classes: The names of the classes, or None.

    Raises:
        TypeError: If `items` is not iterable, or one of them is not a pair.
        ValueError: If a label is not in `classes`, or a class is there twice.

    Example:
        >>> from spdl.source import ImageList
        >>> images = ImageList([("1.jpg", "dog"), ("2.jpg", "cat")], classes=["cat", "dog"])
        >>> images[0].label, images[1].path, len(images)
        (1, '2.jpg', 2)
    """

    def __init__(self, items: Iterable[tuple[Any, Any]], *, classes: Sequence[str] | None = None) -> None:
        self.classes, numbers = _number(classes)
        self._images: list[Any] = []
        self._labels: list[Any] = []
        for image, label in _checked(items, "pair", ("path", "label"), self.classes, numbers):
            self._images.append(image)
            self._labels.append(label)

    def fingerprint(self) -> str:
        """Return a short text that says which images in which order these are."""
        return fingerprint("ImageList", len(self), lambda index: f"{self._name(index)} {self._labels[index]}")

    def __len__(self) -> int:
        return len(self._images)

    def _sample(self, position: int) -> ImageSample:
        return ImageSample(self._images[position], self._labels[position], self._name(position), position)

    def __repr__(self) -> str:
        return f"ImageList of {len(self)} images"

    def _name(self, index: int) -> str:
        image = self._images[index]
        return image if isinstance(image, str) else f"image {index}"
