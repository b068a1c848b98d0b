"""Epochs of any size on any ranks, with samples that fail, cut anywhere and continued elsewhere: nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import ImageLoader
from spdl.io import LoadError

Batches = list[list[int]]


# There may be more ranks than samples.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")


@dataclass
class Photos:
    """A source whose labels are its indices, and of which some samples cannot be had."""

    count: int
    broken: set[int]
    how: str

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[bytes, int] | None:
        photo = b"P5 1 1 255 " + bytes([index])
        if index not in self.broken:
            return photo, index
        if self.how == "raises":
            raise ValueError("no such sample")
        return None if self.how == "is None" else (photo[:-1] if self.how == "is cut" else b"", index)


@st.composite
def sources(draw: st.DrawFn) -> Photos:
    count = draw(st.integers(1, 40))
    broken = draw(st.sets(st.integers(0, count - 1), max_size=count // 2))
    return Photos(count, broken, draw(st.sampled_from(["raises", "is None", "is cut", "is empty"])))


def read(loader: ImageLoader, steps: int | None = None) -> Batches:
    """Return the labels of the next batches, after a look at whether the images are theirs."""
    batches: Batches = []
    if steps == 0:
        return batches
    for images, labels in islice(loader, steps):
        assert images[:, 0, 0, 0].tolist() == labels.tolist()
        batches.append(labels.tolist())
    return batches


def counted(*ranks: Batches) -> Counter[int]:
    return Counter(chain.from_iterable(chain.from_iterable(ranks)))


@dataclass
class Program:
    """Loaders of all ranks of a place (world size, batch size), and where another place goes on."""

    source: Photos
    on_error: str
    shuffle: bool
    even_batches: bool
    place: tuple[int, int]
    other: tuple[int, int]
    cut: int

    def loaders(self, place: tuple[int, int]) -> list[ImageLoader]:
        chosen: dict[str, Any] = {
            "shuffle": self.shuffle,
            "even_batches": self.even_batches,
            "on_error": self.on_error,
            "layout": "NHWC",
            "dtype": "uint8",
            "output": "numpy",
        }
        world_size, batch_size = place
        # It has what loaders use of a sequence.
        source: Any = self.source
        return [
            ImageLoader(source, batch_size, size=1, rank=rank, world_size=world_size, num_threads=2, **chosen)
            for rank in range(world_size)
        ]

    def read(self, loaders: list[ImageLoader]) -> list[Batches] | None:
        """Return the batches of each rank, or None if one has nothing to give in a step for which others wait."""
        try:
            return [read(loader) for loader in loaders]
        except LoadError:
            assert self.on_error == "skip"
            assert self.source.broken
            return None


PLACES = st.tuples(st.integers(1, 4), st.integers(1, 6))
PROGRAMS = st.builds(
    Program,
    sources(),
    st.sampled_from(["skip", "refill"]),
    st.booleans(),
    st.booleans(),
    PLACES,
    PLACES,
    st.integers(0, 8),
)


@given(PROGRAMS)
def test_nothing_is_lost(program: Program) -> None:
    source = program.source
    good = set(range(source.count)) - source.broken
    whole = program.read(program.loaders(program.place))
    if whole is None:
        return
    # Each good sample comes once, and one more time at most where ranks need equally many steps.
    more = sum(counted(*whole).values()) - (len(good) if program.on_error == "skip" else source.count)
    assert set(counted(*whole)) == good
    assert 0 <= more < (program.place[0] if program.even_batches else 1)
    assert all(len(batch) <= program.place[1] for batches in whole for batch in batches)
    if program.even_batches:
        assert len({len(batches) for batches in whole}) == 1

    # The same ranks go on with what they have not had.
    cut = min(program.cut, *(len(batches) for batches in whole))
    loaders = program.loaders(program.place)
    before = [read(loader, cut) for loader in loaders]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    assert before == [batches[:cut] for batches in whole]
    for loader, state, batches in zip(program.loaders(program.place), states, whole, strict=True):
        if cut < len(batches):
            loader.load_state_dict(state)
            assert read(loader) == batches[cut:]

    # So do other ranks by the state of any. A rank that lacks a batch, of which all samples failed, does not speak for
    # the others; one that has had them all may let others receive some again.
    if 0 < cut < len(whole[0]):
        in_step = program.even_batches or program.on_error == "refill" or not source.broken
        loaders = program.loaders(program.other)
        try:
            for loader in loaders:
                loader.load_state_dict(states[-1])
        except ValueError as error:
            assert not in_step
            assert "what the others have received" in str(error)  # noqa: PT017 - it may be raised or not.
            return
        after = program.read(loaders)
        if after is None:
            return
        found = counted(*before, *after)
        assert set(found) == good
        if program.on_error == "skip" and in_step:
            repeats = program.place[0] - 1 + program.other[0] - 1 if program.even_batches else 0
            assert 0 <= sum(found.values()) - len(good) <= repeats
