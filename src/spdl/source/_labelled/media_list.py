"""Parts of videos or sounds that the caller lists, with their labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from spdl._check import refuse
from spdl.source._labelled.fingerprint import fingerprint
from spdl.source._labelled.sample import MediaSample

__all__ = ["MediaList"]

_ACCEPTED = "triples (path, window, label)"
_TRIPLE = 3

# In seconds; moments are compared as fractions with a denominator of at most 10**6. A little less for rounding.
_SHORTEST = 0.999e-6
_LARGEST = 1_000_000_000


class MediaList(Sequence[MediaSample]):
    """Parts of videos or sounds and their labels: from a CSV file, a data frame, or a query.

    A file may be there several times with other windows: the scenes of a film, or the words of a recording.

    Args:
        items: Triples of a path, a window and a label. A window is ``(start, end)`` in seconds, or None for the whole
            file. A file may also be given by its bytes. The label may be any object.
        classes: The names of the classes, if labels are names: they are then replaced by their numbers in this order.
            None keeps labels as they are.

    Attributes:
        classes: The names of the classes, or None.

    Raises:
        TypeError: If `items` is not iterable, or one of them is no triple, or a window no pair of numbers.
        ValueError: If a window is empty, a label is not in `classes`, or a class is there twice.

    Example:
        >>> from spdl.source import MediaList
        >>> words = MediaList([("talk.flac", (0.5, 1.5), "yes"), ("talk.flac", (2, 3), "no")], classes=["no", "yes"])
        >>> words[1].window, words[1].label
        ((2.0, 3.0), 0)
    """

    def __init__(self, items: Iterable[tuple[Any, Any, Any]], *, classes: Sequence[str] | None = None) -> None:
        _check_items(items)
        self.classes = None if classes is None else list(classes)
        numbers = {} if self.classes is None else {name: number for number, name in enumerate(self.classes)}
        if self.classes is not None and len(numbers) != len(self.classes):
            refuse(ValueError, "classes", "names that differ from each other", classes)
        self._items: list[tuple[Any, tuple[float, float] | None, Any]] = []
        for position, item in enumerate(items):
            media, window, label = _to_triple(position, item)
            if self.classes is not None:
                if label not in numbers:
                    refuse(ValueError, f"items[{position}]", f"a triple whose label is one of {self.classes}", item)
                label = numbers[label]
            media = os.fspath(media) if isinstance(media, os.PathLike) else media
            self._items.append((media, _to_window(position, window), label))

    def fingerprint(self) -> str:
        """Return a short text that says which parts of which files in which order these are."""
        return fingerprint(
            "MediaList", len(self), lambda index: f"{self._name(index)} {self._items[index][1]} {self._items[index][2]}"
        )

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> MediaSample: ...
    @overload
    def __getitem__(self, index: slice) -> list[MediaSample]: ...
    def __getitem__(self, index: int | slice) -> MediaSample | list[MediaSample]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index if index >= 0 else index + len(self)
        media, window, label = self._items[index]
        return MediaSample(media, window, label, self._name(position), position)

    def __repr__(self) -> str:
        return f"MediaList of {len(self)} parts"

    def _name(self, index: int) -> str:
        media = self._items[index][0]
        return media if isinstance(media, str) else f"media {index}"


def _check_items(items: Any) -> None:
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        refuse(TypeError, "items", _ACCEPTED, items)


def _to_triple(position: int, item: Any) -> tuple[Any, Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != _TRIPLE:
        refuse(TypeError, f"items[{position}]", f"one of the {_ACCEPTED}", item)
    return item[0], item[1], item[2]


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
