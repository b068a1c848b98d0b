"""Images that the caller lists, with their labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from spdl._check import refuse
from spdl.source._labelled.fingerprint import fingerprint
from spdl.source._labelled.sample import ImageSample

__all__ = ["ImageList"]

_ACCEPTED = "pairs (path, label)"
_PAIR = 2


class ImageList(Sequence[ImageSample]):
    """Images and labels from a list of pairs: from a CSV file, a data frame, or a query.

    It is a sequence of `ImageSample` records, as `ImageFolder` is.

    Args:
        items: Pairs of a path and a label. An image may also be the bytes of a file. The label may be any object; ints
            and floats make an array in a batch, other objects a list.
        classes: The names of the classes, if labels are names: they are then replaced by their numbers in this order.
            None keeps labels as they are.

    Attributes:
        classes: The names of the classes, or None.

    Raises:
        TypeError: If `items` is not iterable, or one of them is no pair.
        ValueError: If a label is not in `classes`, or a class is there twice.

    Example:
        >>> from spdl.source import ImageList
        >>> images = ImageList([("1.jpg", "dog"), ("2.jpg", "cat")], classes=["cat", "dog"])
        >>> images[0].label, images[1].path, len(images)
        (1, '2.jpg', 2)
    """

    def __init__(self, items: Iterable[tuple[Any, Any]], *, classes: Sequence[str] | None = None) -> None:
        _check_items(items)
        self.classes = None if classes is None else list(classes)
        numbers = {} if self.classes is None else {name: number for number, name in enumerate(self.classes)}
        if self.classes is not None and len(numbers) != len(self.classes):
            refuse(ValueError, "classes", "names that differ from each other", classes)
        self._images: list[Any] = []
        self._labels: list[Any] = []
        for position, item in enumerate(items):
            image, label = _to_pair(position, item)
            if self.classes is not None:
                if label not in numbers:
                    refuse(ValueError, f"items[{position}]", f"a pair whose label is one of {self.classes}", item)
                label = numbers[label]
            self._images.append(os.fspath(image) if isinstance(image, os.PathLike) else image)
            self._labels.append(label)

    def fingerprint(self) -> str:
        """Return a short text that says which images in which order these are."""
        return fingerprint("ImageList", len(self), lambda index: f"{self._name(index)} {self._labels[index]}")

    def __len__(self) -> int:
        return len(self._images)

    @overload
    def __getitem__(self, index: int) -> ImageSample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ImageSample]: ...
    def __getitem__(self, index: int | slice) -> ImageSample | list[ImageSample]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index if index >= 0 else index + len(self)
        return ImageSample(self._images[index], self._labels[index], self._name(position), position)

    def __repr__(self) -> str:
        return f"ImageList of {len(self)} images"

    def _name(self, index: int) -> str:
        image = self._images[index]
        return image if isinstance(image, str) else f"image {index}"


def _check_items(items: Any) -> None:
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        refuse(TypeError, "items", _ACCEPTED, items)


def _to_pair(position: int, item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != _PAIR:
        refuse(TypeError, f"items[{position}]", f"one of the {_ACCEPTED}", item)
    return item[0], item[1]
