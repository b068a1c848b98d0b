"""Test that pipelines with aggregators that tell what they hold back go on exactly, or refuse their state.

Each item occurs once, so that none can be lost or repeated unnoticed.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.support import source, through_json

from spdl.pipeline import Pipeline, PipelineFailure
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SEEDS = int(os.environ.get("SPDL_TEST_SEEDS", "24"))


class Sorts(Aggregator[int, Any]):
    """Puts numbers that leave the same remainder into one batch."""

    def __init__(self, size: int, make: Callable[[list[int]], Any] = list, *, drops: bool = False) -> None:
        self.size, self.make, self.drops = size, make, drops
        self.held: list[list[int]] = [[], [], []]

    def accumulate(self, item: int) -> Any:
        held = self.held[item % 3]
        held.append(item)
        if len(held) < self.size:
            return None
        self.held[item % 3] = []
        return self.make(held)

    def flush(self) -> Any:
        rest, self.held = [*itertools.chain(*self.held)], [[], [], []]
        return self.make(rest) if rest and not self.drops else None

    def held_back(self) -> list[int]:
        return [*itertools.chain(*self.held)]


class Shuffles(Aggregator[int, Any]):
    """Keeps some numbers, and returns one of them for each that comes."""

    def __init__(self) -> None:
        self.random = random.Random(0)  # noqa: S311 - no secret.
        self.held: list[int] = []

    def accumulate(self, item: int) -> int | None:
        self.held.append(item)
        return self.held.pop(self.random.randrange(len(self.held))) if len(self.held) > 4 else None

    def flush(self) -> list[int] | None:
        held, self.held = self.held, []
        return held or None

    def held_back(self) -> list[int]:
        return self.held


class Window(Aggregator[int, Any]):
    """Returns each number with the two before it."""

    def __init__(self, make: Callable[[list[int]], Any] = list) -> None:
        self.make = make
        self.held: list[int] = []

    def accumulate(self, item: int) -> Any:
        self.held.append(item)
        if len(self.held) < 3:
            return None
        window = self.held.copy()
        del self.held[0]
        return self.make(window)

    def flush(self) -> None:
        self.held.clear()

    def held_back(self) -> list[int]:
        return self.held


def several(numbers: list[int]) -> list[list[int]]:
    return [numbers[at : at + 2] for at in range(0, len(numbers), 2)]


def reverse(numbers: list[int]) -> list[int]:
    return numbers[::-1]


class Turns:
    """Turns every second batch round."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, numbers: list[int]) -> list[int]:
        self.count += 1
        return numbers[:: 1 if self.count % 2 else -1]


def uneven(item: Any) -> Any:
    end = time.perf_counter() + hash(str(item)) % 5 * 1e-4
    while time.perf_counter() < end:
        pass
    return item


def take_apart(batch: Any) -> Iterator[Any]:
    yield from batch if isinstance(batch, (list, tuple)) else [batch]


def flat(items: Iterable[Any]) -> Counter[int]:
    found: Counter[int] = Counter()
    for item in items:
        found += flat(item) if isinstance(item, (list, tuple)) else Counter([item])
    return found


def draw(rng: random.Random) -> tuple[Callable[[], Pipeline[Any]], int]:
    """Return what makes a random pipeline, and how many numbers it takes."""
    size, numbers = rng.randint(2, 5), [7 * n for n in range(rng.randint(0, 40))]
    rng.shuffle(numbers)
    makes: list[Callable[[], Any]] = [
        lambda: Sorts(size),
        lambda: Sorts(size, reverse),
        lambda: Sorts(size, Turns()),
        lambda: Sorts(size, tuple),
        lambda: Sorts(size, several),
        Shuffles,
    ]
    make = rng.choice(makes)
    unordered = [rng.random() < 0.4 for _ in range(3)]
    apart, twice, threads, sink = rng.random() < 0.7, rng.random() < 0.3, rng.randint(1, 3), rng.choice([1, 4])

    def build() -> Pipeline[Any]:
        builder: Any = source(numbers)
        if unordered[0]:
            builder = builder.pipe(uneven, concurrency=3)
        builder = builder.aggregate(make())
        if unordered[1]:
            builder = builder.pipe(uneven, concurrency=3)
        if apart:
            builder = builder.pipe(take_apart)
            if unordered[2]:
                builder = builder.pipe(uneven, concurrency=3)
            if twice and make is not makes[4]:
                builder = builder.aggregate(Sorts(3)).disaggregate()
        pipeline: Pipeline[Any] = builder.add_sink(sink).build(num_threads=threads)
        return pipeline

    return build, len(numbers)


def read(pipeline: Pipeline[Any], steps: int | None) -> tuple[list[Any], dict[str, Any]]:
    with pipeline.auto_stop():
        got = list(itertools.islice(pipeline.get_iterator(timeout=60), steps))
        return got, through_json(pipeline)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.filterwarnings("ignore:The source of the pipeline")
def test_each_item_comes_once_wherever_it_is_cut(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret.
    build, number = draw(rng)
    whole, _ = read(build(), None)
    assert flat(whole) == Counter(7 * n for n in range(number))
    for cut in sorted(rng.sample(range(len(whole) + 1), min(5, len(whole) + 1))):
        got: list[Any] = []
        state = None
        for steps in (cut, rng.randint(0, 4), None):
            pipeline = build()
            if state is not None:
                pipeline.load_state_dict(state)
            try:
                more, state = read(pipeline, steps)
            except RuntimeError as error:
                assert "only a part of it was received" in str(error)  # noqa: PT017 - not of each cut.
                break
            got += more
        else:
            assert flat(got) == flat(whole), (seed, cut)


def test_the_rest_of_a_batch_comes_that_its_aggregator_would_make_in_another_order() -> None:
    def build() -> Pipeline[Any]:
        return source(range(24)).aggregate(Sorts(4, Turns())).disaggregate().add_sink(1).build(num_threads=1)

    for cut in range(24):
        begun, state = read(build(), cut)
        resumed = build()
        resumed.load_state_dict(state)
        assert flat(begun + read(resumed, None)[0]) == Counter(range(24)), cut


def test_a_state_is_refused_as_long_as_a_nest_of_items_was_received_in_part() -> None:
    op = Sorts(4, several)
    pipeline = source(range(24)).aggregate(op).disaggregate().add_sink(1).build(num_threads=1)
    with pipeline.auto_stop():
        pipeline.get_item(timeout=60)
        with pytest.raises(RuntimeError, match=r"only a part of it was received.* Take the state one result later"):
            pipeline.state_dict()
        list(pipeline.get_iterator(timeout=60))
        pipeline.state_dict()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sorts(3, np.array),
        lambda: Sorts(3, sum),
        lambda: Sorts(3, lambda held: (held, "label")),
        lambda: Sorts(3, lambda held: held[:2]),
        lambda: Sorts(3, lambda held: [*held, held[0]]),
        Window,
        lambda: Window(sum),
    ],
)
def test_a_result_that_is_not_made_of_the_items_is_refused(make: Callable[[], Aggregator[int, Any]]) -> None:
    pipeline = source(range(1_000, 1_060)).aggregate(make()).add_sink(1).build(num_threads=1)
    pipeline.state_dict()
    with pipeline.auto_stop():
        pipeline.get_item(timeout=60)
        with pytest.raises(
            RuntimeError, match=r"keeps items past a result, and a result was not made .* give \w+ the methods `state_"
        ):
            pipeline.state_dict()


@pytest.mark.parametrize("make", [np.array, list])
def test_one_that_keeps_nothing_may_return_anything(make: Callable[[list[int]], Any]) -> None:
    class Pairs(Aggregator[int, Any]):
        def __init__(self) -> None:
            self.held: list[int] = []
            self.random = random.Random(0)  # noqa: S311 - no secret. Nobody can look into it.

        def accumulate(self, item: int) -> Any:
            self.held.append(item)
            return self.take() if len(self.held) == 2 else None

        def take(self) -> Any:
            held, self.held = self.held, []
            return make(held)

        def flush(self) -> None:
            self.held = []

        def held_back(self) -> tuple[()]:
            return ()

    def build() -> Pipeline[Any]:
        return source(range(1_000, 1_021)).aggregate(Pairs()).disaggregate().add_sink(1).build(num_threads=1)

    for cut in range(21):
        begun, state = read(build(), cut)
        resumed = build()
        resumed.load_state_dict(state)
        assert begun + read(resumed, None)[0] == list(range(1_000, 1_020))


class TestFlushThatDrops:
    @staticmethod
    def build(**options: Any) -> Pipeline[Any]:
        op = Sorts(3, drops=True)
        return source(range(20)).aggregate(op, **options).add_sink(1).build(num_threads=1)

    def test_it_is_seen_at_the_end_of_the_epoch(self) -> None:
        pipeline = self.build()
        with pipeline.auto_stop():
            list(pipeline.get_iterator(timeout=60))
            with pytest.raises(RuntimeError, match=r"its `flush` did not return all that it kept.*drop_last=True"):
                pipeline.state_dict()

    @pytest.mark.parametrize("cut", [2, 3])
    def test_a_resumed_run_fails(self, cut: int) -> None:
        _, state = read(self.build(), cut)
        # Through one more run, which receives nothing.
        again = self.build()
        again.load_state_dict(state)
        resumed = self.build()
        resumed.load_state_dict(through_json(again))
        with pytest.raises(PipelineFailure) as failure, resumed.auto_stop():
            list(resumed.get_iterator(timeout=60))
        assert "its `flush` did not return all that it kept" in str(failure.value.exceptions)

    def test_a_run_that_goes_on_from_the_beginning_does_not(self) -> None:
        resumed = self.build()
        resumed.load_state_dict(through_json(self.build()))
        with resumed.auto_stop():
            got = list(resumed.get_iterator(timeout=60))
        assert got == read(self.build(drop_last=True), None)[0]

    def test_one_that_has_nothing_left_goes_on(self) -> None:
        def build() -> Pipeline[Any]:
            return source(range(18)).aggregate(Sorts(3, drops=True)).add_sink(1).build(num_threads=1)

        begun, state = read(build(), 4)
        resumed = build()
        resumed.load_state_dict(state)
        assert flat(begun + read(resumed, None)[0]) == Counter(range(18))

    def test_a_later_epoch_of_a_resumed_run_is_not_that_of_the_cut(self) -> None:
        class Fewer:
            """Yields all that fills batches in the first epoch, and more in the next ones."""

            def __init__(self) -> None:
                self.number = 18

            def __iter__(self) -> Any:
                number, self.number = self.number, 20
                return iter(range(number))

        def build() -> Pipeline[Any]:
            builder = source(Fewer(), continuous=True).aggregate(Sorts(3, drops=True)).add_sink(1)
            return builder.build(num_threads=1)

        _, state = read(build(), 1)
        resumed = build()
        with pytest.warns(UserWarning, match="cannot begin at a position"):
            resumed.load_state_dict(state)
        with resumed.auto_stop():
            rest = list(resumed.get_iterator(timeout=60))
            assert len(rest) == 5
            assert len(list(resumed.get_iterator(timeout=60))) == 6

    def test_a_pipeline_without_it_is_refused(self) -> None:
        class Same(Sorts):
            held_back = Aggregator.held_back  # type: ignore[assignment]

        Same.__qualname__ = Sorts.__qualname__
        _, state = read(self.build(), 3)
        other = source(range(20)).aggregate(Same(3)).add_sink(1).build(num_threads=1)
        with pytest.raises(ValueError, match=r"`held_back\(\)` had kept items .* another number of such"):
            other.load_state_dict(state)
