"""Lists of images keep labels and images together."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from spdl.source import ImageList, ImageSample


def test_it_is_a_sequence_of_records() -> None:
    images = ImageList([("a.jpg", 3), (Path("b.jpg"), [1.5, 2.5]), (b"bytes", None)])
    assert len(images) == 3
    assert images[0] == ImageSample("a.jpg", 3, "a.jpg", 0)
    assert images[1].path == images[1].image == "b.jpg"
    assert images[-1] == ImageSample(b"bytes", None, "image 2", 2)
    assert [sample.index for sample in images[1:]] == [1, 2]
    assert pickle.loads(pickle.dumps(images))[1] == images[1]  # noqa: S301 - our own.


def test_names_of_classes_become_numbers() -> None:
    images = ImageList(iter([("1.jpg", "dog"), ("2.jpg", "cat")]), classes=["cat", "dog"])
    assert [sample.label for sample in images] == [1, 0]


def test_the_fingerprint_says_what_is_in_it() -> None:
    items: list[tuple[Any, Any]] = [("a.jpg", 0), ("b.jpg", 1)]
    prints = {ImageList(each).fingerprint() for each in (items, items[:1], items[::-1], [("a.jpg", 1), ("b.jpg", 1)])}
    assert len(prints) == 4
    assert ImageList(items).fingerprint() in prints


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["photos"], TypeError, "`items`"),
        ([3], TypeError, "`items`"),
        ([["photos"]], TypeError, r"`items\[0\]`"),
        ([[("a", 1), ("a", 1, 2)]], TypeError, r"`items\[1\]`"),
        ([[("a", "eel")], ["cat"]], ValueError, r"`items\[0\]`.*cat"),
        ([[], ["cat", "cat"]], ValueError, "`classes`"),
    ],
)
def test_mistakes_are_explained(arguments: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ImageList(arguments[0], **({"classes": arguments[1]} if len(arguments) > 1 else {}))
