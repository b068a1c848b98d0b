"""Windows have all parts once, in order, and no more bytes than they may."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store._ahead.windows import Part, plan_windows

PARTS = st.lists(st.builds(Part, st.sampled_from(["a", "b", "c/d"]), st.integers(0, 500), st.integers(0, 90)))


@given(parts=PARTS, most_bytes=st.integers(1, 200), most_parts=st.integers(1, 9))
def test_all_parts_are_there_once_and_in_order(parts: list[Part], most_bytes: int, most_parts: int) -> None:
    found: list[Part] = []
    windows = list(plan_windows(parts, most_bytes=most_bytes, most_parts=most_parts))
    for window in windows:
        own: dict[int, Part] = {}
        for read in window.reads:
            for place, start, length in zip(read.places, read.starts, read.lengths, strict=True):
                assert place not in own
                own[place] = Part(read.path, start, length)
        assert sorted(own) == list(range(window.part_count))
        assert window.bytes == sum(part.length for part in own.values())
        assert window.bytes <= most_bytes or window.part_count == 1
        assert window.part_count <= most_parts
        assert len({read.path for read in window.reads}) == len(window.reads), "one call for each object"
        found += [own[place] for place in range(window.part_count)]
    assert found == parts
    # None could have taken the first part of the next.
    for window, after in itertools.pairwise(windows):
        first = next(read.lengths[0] for read in after.reads if read.places[0] == 0)
        assert window.bytes + first > most_bytes or window.part_count == most_parts


def test_an_endless_order() -> None:
    parts = (Part("a", 10 * number, 10) for number in itertools.count())
    windows = plan_windows(parts, most_bytes=100, most_parts=50)
    assert [next(windows).reads[0].starts[0] for _ in range(3)] == [0, 100, 200]


@pytest.mark.parametrize(
    ("part", "error", "match"),
    [
        (("a", -1, 1), ValueError, "`start` must be an int of at least 0, got -1"),
        (("a", 0, -1), ValueError, "`length` must be an int of at least 0, got -1"),
        (("a", 0.5, 1), TypeError, "`start` must be an int"),
        (("../a", 0, 1), ValueError, "`path` must be the path of an object"),
        (3, TypeError, "`parts` must be an iterable of parts"),
        ("ab", TypeError, "`parts` must be an iterable of parts"),
    ],
)
def test_parts_that_are_none(part: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        list(plan_windows([part], most_bytes=10, most_parts=10))
