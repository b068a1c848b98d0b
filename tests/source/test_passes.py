"""Sources that are shuffled or repeated pass by pass."""

from __future__ import annotations

import json
import logging
import pickle
import random
import time
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedRandomSampler, IterableWithShuffle, SizedIterable
from spdl.source.utils import embed_shuffle, repeat_source

if TYPE_CHECKING:
    from collections.abc import Iterator


class Passes:
    """Yields three times the seed of its latest shuffle, and notes all of them."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def shuffle(self, seed: int) -> None:
        self.seeds.append(seed)

    def __iter__(self) -> Iterator[int]:
        yield from self.seeds[-1:] * 3


class SizedPasses(Passes):
    def __len__(self) -> int:
        return 3


class TestEmbedShuffle:
    def test_each_pass_is_shuffled_before_it_begins(self) -> None:
        source = embed_shuffle(Passes(), epoch=5)
        assert [list(source) for _ in range(3)] == [[5] * 3, [6] * 3, [7] * 3]

    def test_each_pass_is_shuffled_when_it_ends(self) -> None:
        passes = Passes()
        source = embed_shuffle(passes, shuffle_last=True, epoch=5)
        assert [list(source) for _ in range(3)] == [[], [5] * 3, [6] * 3]
        assert passes.seeds == [5, 6, 7]

    def test_also_when_it_is_given_up(self) -> None:
        passes = SizedPasses()
        passes.shuffle(0)
        source = embed_shuffle(passes, shuffle_last=True, epoch=1)
        with closing(iter(source)) as items:  # type: ignore[type-var]
            assert next(items) == 0
        assert passes.seeds == [0, 1]

    def test_a_pipelines_epochs(self) -> None:
        source = embed_shuffle(DistributedRandomSampler(50, rank=0, world_size=1))
        builder: Any = PipelineBuilder().add_source(source, continuous=True)
        with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            epochs = [list(pipeline.get_iterator(timeout=20)) for _ in range(3)]
        expected = DistributedRandomSampler(50, rank=0, world_size=1)
        for seed, epoch in enumerate(epochs):
            expected.shuffle(seed)
            assert epoch == list(expected)

    @pytest.mark.parametrize("shuffle_last", [False, True])
    def test_its_state_says_which_pass_is_next(self, *, shuffle_last: bool) -> None:
        def make() -> Any:
            source = DistributedRandomSampler(9, rank=0, world_size=1, seed=30)
            return embed_shuffle(source, shuffle_last=shuffle_last, epoch=7)

        expected = make()
        passes = [list(expected) for _ in range(4)]
        for done in range(3):
            source = make()
            assert [list(source) for _ in range(done)] == passes[:done]
            other = make()
            if done:
                list(other)
            other.load_state_dict(json.loads(json.dumps(source.state_dict())))
            assert [list(other) for _ in range(4 - done)] == passes[done:]

    def test_it_begins_at_a_position_if_its_source_can(self) -> None:
        class Shuffled(list[int]):
            def shuffle(self, seed: int) -> None:
                random.Random(seed).shuffle(self)

        expected: Any = embed_shuffle(Shuffled(range(9)))
        first, second = list(expected), list(expected)
        source: Any = embed_shuffle(Shuffled(range(9)))
        assert list(source.iterate_from(4)) == first[4:]
        assert list(source.iterate_from(8)) == second[8:]
        assert not hasattr(embed_shuffle(Passes()), "iterate_from")

    def test_bad_states_are_refused(self) -> None:
        source: Any = embed_shuffle(SizedPasses(), shuffle_last=True)
        state = source.state_dict()
        others: list[Any] = [embed_shuffle(Passes(), shuffle_last=True), embed_shuffle(SizedPasses())]
        for other, wanted in zip(others, ("length=3", "shuffle_last=True"), strict=True):
            with pytest.raises(ValueError, match=f"`state` must be one with {wanted}"):
                source.load_state_dict(other.state_dict())
        for bad in ({}, {**state, "spdl": "x"}, {**state, "epoch": 1}):
            with pytest.raises(ValueError, match="`state` is"):
                source.load_state_dict(bad)
        with pytest.raises(TypeError, match="`state` must be a dict"):
            source.load_state_dict([])
        list(source)
        with pytest.raises(ValueError, match="taken before the first pass"):
            source.load_state_dict(state)

    def test_its_size(self) -> None:
        sized = embed_shuffle(SizedPasses())
        assert isinstance(sized, SizedIterable)
        assert len(sized) == 3
        with pytest.raises(TypeError, match="'Passes' has no len"):
            len(embed_shuffle(Passes()))  # type: ignore[arg-type]

    @pytest.mark.parametrize("how", ["embed_shuffle", "repeat_source"])
    def test_a_long_shuffle_is_told(
        self, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = iter([10.0, 12.9, 20.0, 23.1])
        monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
        source = embed_shuffle(Passes()) if how == "embed_shuffle" else repeat_source(Passes())
        taken = [*source, *source] if how == "embed_shuffle" else list(islice(source, 6))
        assert taken == [0, 0, 0, 1, 1, 1]
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "Shuffling Passes with seed 1 took 3.1 seconds" in caplog.text

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            ([[1, 2]], {}, "`src` must be an iterable with a method `shuffle(seed=...)`, got [1, 2]"),
            ([Passes()], {"shuffle_last": None}, "`shuffle_last` must be True or False, got None"),
            ([Passes()], {"epoch": "1"}, "`epoch` must be an int, got '1'"),
        ],
    )
    def test_mistakes(self, args: list[Any], kwargs: dict[str, Any], message: str) -> None:
        with pytest.raises(TypeError) as caught:
            embed_shuffle(*args, **kwargs)
        assert message in str(caught.value)


class TestRepeatSource:
    def test_without_a_shuffle(self) -> None:
        assert list(islice(repeat_source([1, 2, 3]), 8)) == [1, 2, 3, 1, 2, 3, 1, 2]

    def test_each_pass_has_a_seed_of_its_own(self) -> None:
        assert isinstance(Passes(), IterableWithShuffle)
        assert list(islice(repeat_source(Passes(), 4), 7)) == [4, 4, 4, 5, 5, 5, 6]

    def test_it_goes_on_where_it_was_left(self) -> None:
        items = repeat_source("abc")
        assert [next(items), *islice(items, 4)] == ["a", "b", "c", "a", "b"]

    def test_it_is_pickled_before_it_begins(self) -> None:
        items = repeat_source([1, 2], epoch=3)
        copy = pickle.loads(pickle.dumps(items))  # noqa: S301 - our own bytes.
        assert list(islice(copy, 3)) == list(islice(items, 3)) == [1, 2, 1]
        with pytest.raises(ValueError, match="cannot be pickled once its first item was taken"):
            pickle.dumps(items)

    def test_a_source_that_does_not_start_anew(self) -> None:
        items = repeat_source(iter("ab"))
        assert [next(items), next(items)] == ["a", "b"]
        with pytest.raises(ValueError, match=r"Pass 1 over str_\w*iterator gave nothing"):
            next(items)

    def test_mistakes(self) -> None:
        with pytest.raises(TypeError, match="`src` must be an iterable, got 5"):
            repeat_source(5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`epoch` must be an int, got '1'"):
            repeat_source([1], "1")  # type: ignore[arg-type]
