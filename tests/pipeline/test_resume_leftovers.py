"""Test that pipelines whose stages change counts, and split items, go on exactly where they were cut.

What has to come is computed by plain loops over lists. Each token occurs once, so that none can be lost or repeated
unnoticed.
"""

from __future__ import annotations

import itertools
import json
import logging
import operator
import os
import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.pipeline.support import source, through_json

from spdl.pipeline import PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, Aggregator, ThreadPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import Pipeline

SEEDS = int(os.environ.get("SPDL_TEST_SEEDS", "24"))

Row = tuple[int, ...]


class Pack(Aggregator[Row, list[Row]]):
    """Fills rows of so many tokens. What is left of an item begins the next row."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.left: list[int] = []

    def accumulate(self, item: Row) -> list[Row] | None:
        # In place: a state that was taken before must not change.
        self.left.extend(item)
        rows = []
        while len(self.left) >= self.length:
            rows.append(tuple(self.left[: self.length]))
            del self.left[: self.length]
        return rows or None

    def flush(self) -> list[Row] | None:
        left, self.left = self.left, []
        return [tuple(left)] if left else None

    def state_dict(self) -> dict[str, Any]:
        return {"left": self.left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.left = state["left"]


class Sort(Aggregator[Row, list[Row]]):
    """Gathers rows by their first tokens, so that rows overtake each other."""

    def __init__(self) -> None:
        self.rows: list[list[Row]] = [[], [], []]

    def accumulate(self, item: Row) -> list[Row] | None:
        rows = self.rows[item[0] % 3]
        rows.append(item)
        if len(rows) < 3:
            return None
        self.rows[item[0] % 3] = []
        return rows

    def flush(self) -> list[Row] | None:
        rows, self.rows = [*itertools.chain(*self.rows)], [[], [], []]
        return rows or None


class SortTold(Sort):
    def held_back(self) -> list[Row]:
        return [*itertools.chain(*self.rows)]


class SortLeft(Sort):
    def state_dict(self) -> dict[str, Any]:
        return {"rows": [[list(row) for row in rows] for rows in self.rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = [[tuple(row) for row in rows] for rows in state["rows"]]


def keep(row: Row) -> Row | None:
    return None if sum(row) % 4 == 0 else row


def parts(row: Row) -> Iterator[Row]:
    for begin in range(0, len(row), 3):
        yield row[begin : begin + 3]


def uneven(row: Row) -> Row:
    end = time.perf_counter() + row[0] % 5 * 1e-4
    while time.perf_counter() < end:
        pass
    return row


class Program(NamedTuple):
    """Texts, and what is done with them, in so many epochs."""

    texts: list[Row]
    stages: list[tuple[str, int]]
    epochs: int
    continuous: bool
    sink: int
    threads: int

    def build(self) -> Pipeline[Any]:
        """Return a new pipeline."""
        builder: Any = source(self.texts, continuous=self.continuous)
        for place, (kind, number) in enumerate(self.stages):
            name = f"{kind} {place}"
            if kind == "filter":
                builder = builder.pipe(keep, name=name)
            elif kind == "generator":
                builder = builder.pipe(parts, name=name)
            elif kind in ("unordered", "ordered"):
                order = "input" if kind == "ordered" else "completion"
                builder = builder.pipe(uneven, concurrency=3, output_order=order, name=name)
            else:
                stages: dict[str, Any] = {
                    "batch": number,
                    "pack": Pack(number),
                    "sort": SortTold(),
                    "sort, left": SortLeft(),
                }
                builder = builder.aggregate(stages[kind]).disaggregate()
        pipeline: Pipeline[Any] = builder.add_sink(self.sink).build(num_threads=self.threads)
        return pipeline

    def expect(self) -> list[Row]:
        """Return what comes of one epoch, in the order of a single thread that sorts nothing."""
        rows = self.texts
        for kind, number in self.stages:
            if kind == "filter":
                rows = [row for row in rows if keep(row)]
            elif kind == "generator":
                rows = [part for row in rows for part in parts(row)]
            elif kind == "pack":
                tokens = [token for row in rows for token in row]
                rows = [tuple(tokens[at : at + number]) for at in range(0, len(tokens), number)]
        return rows

    def keeps_rows(self) -> bool:
        """Return whether the rows that come are those of a single thread, in that order."""
        return not {kind for kind, _ in self.stages} & {"unordered", "sort", "sort, left"}


KINDS = ("filter", "generator", "pack", "pack", "batch", "sort", "sort, left", "unordered", "ordered")


def draw(rng: random.Random) -> Program:
    """Return a random program with a stage that splits items."""
    ends = list(np.cumsum([0, *(rng.randint(1, 11) for _ in range(rng.randint(0, 9)))]))
    texts = [tuple(range(int(begin), int(end))) for begin, end in itertools.pairwise(ends)]
    stages = [(rng.choice(KINDS), rng.randint(2, 9)) for _ in range(rng.randint(1, 4))]
    stages.insert(rng.randint(0, len(stages)), ("pack", rng.randint(2, 9)))
    for place, (kind, _) in enumerate(stages):
        if kind in ("unordered", "sort", "sort, left"):
            # What is packed in another order has other rows, and others of these would be left out.
            stages[place:] = [stage for stage in stages[place:] if stage[0] != "filter"]
            break
    continuous = rng.random() < 0.4
    epochs = rng.randint(2, 3) if continuous else 1
    return Program(texts, stages, epochs, continuous, rng.randint(1, 4), rng.choice([1, 4]))


class Reading(NamedTuple):
    """What came in each epoch, the last of which has not ended; and the state then."""

    epochs: list[list[Any]]
    state: dict[str, Any]


def read(make: Callable[[], Pipeline[Any]], state: Any, steps: int | None, epochs: int) -> Reading:
    """Read so many steps of a new pipeline, or all. The end of an epoch is one."""
    pipeline = make()
    if state is not None:
        pipeline.load_state_dict(state)
    got: list[list[Any]] = [[]]
    left = -1 if steps is None else steps
    with pipeline.auto_stop():
        while len(got) <= epochs and left:
            for item in pipeline.get_iterator(timeout=60):
                got[-1].append(item)
                left -= 1
                if not left:
                    break
            else:
                got.append([])
                left -= 1
        return Reading(got, json.loads(json.dumps(pipeline.state_dict())))


def read_cut(make: Callable[[], Pipeline[Any]], cuts: tuple[int | None, ...], epochs: int) -> list[list[Any]]:
    """Return what comes in each epoch if the reading is cut after so many steps, and again after so many others."""
    got: list[list[Any]] = [[]]
    state = None
    for cut in cuts:
        found = read(make, state, cut, epochs - len(got) + 1)
        got[-1] += found.epochs[0]
        got += found.epochs[1:]
        state = found.state
    return got[:epochs]


def tokens(epoch: list[Row]) -> Counter[int]:
    return Counter(token for row in epoch for token in row)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.filterwarnings("ignore:The source of the pipeline")
def test_each_token_comes_once_wherever_it_is_cut(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret.
    program = draw(rng)
    expected = program.expect()
    steps = (len(expected) + 1) * program.epochs
    for cut in range(steps + 1) if SEEDS > 24 else rng.sample(range(steps + 1), min(3, steps + 1)):
        got = read_cut(program.build, (cut, rng.randint(0, steps - cut), rng.randint(0, 3), None), program.epochs)
        if program.keeps_rows():
            assert got == [expected] * program.epochs, (cut, program)
        else:
            assert list(map(tokens, got)) == [tokens(expected)] * program.epochs, (cut, program)


class Columns(Aggregator[Any, Any]):
    """Packs arrays, and keeps all sorts of things."""

    def __init__(self, make: Callable[[list[int]], Any]) -> None:
        self.make = make
        self.left = make([])

    def accumulate(self, item: list[int]) -> Any:
        both = [*self.left.tolist(), *item]
        whole = len(both) // 5 * 5
        self.left = self.make(both[whole:])
        return both[:whole] or None

    def flush(self) -> Any:
        left, self.left = self.left, self.make([])
        return left.tolist() or None

    def state_dict(self) -> dict[str, Any]:
        return {"left": [(self.left, 1, None)], "more": {"text": "a", "flag": True, "number": np.float32(0.1)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        left, *others = state["left"][0]
        number = state["more"].pop("number")
        assert (others, state["more"]) == ([1, None], {"text": "a", "flag": True})
        assert type(number) is np.float32
        assert number == np.float32(0.1)
        assert (type(left), left.dtype) == (type(self.left), self.left.dtype)
        # It may be written to.
        left[:] = left
        self.left = left


def check_leftovers(make: Callable[[list[int]], Any]) -> None:
    """Check that an aggregator goes on that keeps what a function makes of numbers."""
    items = [list(range(number % 4)) for number in range(12)]

    def build() -> Pipeline[Any]:
        return source(items).aggregate(Columns(make)).disaggregate().add_sink(2).build(num_threads=1)

    expected = [token for item in items for token in item]
    for cut in range(len(expected) + 1):
        assert read_cut(build, (cut, None), 1) == [expected]


@pytest.mark.parametrize("dtype", ["uint8", ">i4", "int64", "float16"])
def test_what_is_left_over_may_have_arrays(dtype: str) -> None:
    check_leftovers(lambda values: np.array(values, dtype))


def test_what_is_left_over_by_a_pipeline_that_was_stopped_is_in_the_state_of_the_next_one() -> None:
    shared = Pack(4)
    shared.left = [7, 8, 9]

    def build(pack: Pack) -> Pipeline[Any]:
        return source([(1, 2), (3, 4)]).aggregate(pack).disaggregate().add_sink(2).build(num_threads=1)

    for cut in range(3):
        shared.left = [7, 8, 9]
        first = read(lambda: build(shared), None, cut, 1)
        rest = read(lambda: build(Pack(4)), first.state, None, 1)
        assert first.epochs[0] + rest.epochs[0] == [(7, 8, 9, 1), (2, 3, 4)]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = [value]
    return value


class Left(Pack):
    """Says that something else is left over."""

    def __init__(self, left: Any) -> None:
        super().__init__(2)
        self.value = left

    def state_dict(self) -> Any:
        return {"left": [self.value]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (object(), r"got <object .*> of type object at `state_dict\(\)\['left'\]\[0\]`"),
        ({1: 2}, "got {1: 2} of type dict at .*"),
        (b"1", "of type bytes at .*"),
        ({1, 2}, "of type set at .*"),
        ({"spdl.array": 1}, "of type dict at .*"),
        (np.array([None]), "of type ndarray at .* numbers, bools, texts or times"),
        (np.zeros(2, [("a", int)]), "of type ndarray at .* numbers, bools, texts or times"),
        (np.ma.array([1, 2], mask=[False, True]), "of type MaskedArray at .* It would come back as a plain array"),
        (np.zeros((1, 1)).view(np.matrix), "of type matrix at .* It would come back as a plain array"),
        (
            cyclic(),
            r"has more than 100 levels, or contains itself, at `state_dict\(\)\['left'\]\[0\]\['again'\]\[0\].*flat",
        ),
        (nested(5_000), "has more than 100 levels, or contains itself"),
    ],
)
def test_what_json_cannot_hold_is_refused_at_the_start(wrong: Any, message: str) -> None:
    pipeline = source([(1, 2)]).aggregate(Left(wrong)).add_sink(1).build(num_threads=1)
    expected = rf"(?i)Stage 'aggregate\(op=Left, drop_last=False\)': what the aggregator's `state_dict\(\)` .*{message}"
    with pytest.raises(TypeError, match=expected):
        pipeline.state_dict()
    with pytest.raises(TypeError, match=expected), pipeline.auto_stop():
        pass


def test_a_state_that_fails_later_fails_the_pipeline() -> None:
    class Fails(Pack):
        def state_dict(self) -> Any:
            return super().state_dict() if not self.left else 1 / 0

    pipeline = source([(1, 2, 3)]).aggregate(Fails(2)).add_sink(1).build(num_threads=1)
    with pytest.raises(PipelineFailure, match="stages failed"), pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=60))


class Each(Aggregator[Row, Row]):
    """Keeps nothing."""

    def accumulate(self, item: Row) -> Row:
        return item

    def flush(self) -> None:
        return None


def test_a_state_of_other_aggregators_is_refused() -> None:
    plain, packs = type("Same", (Each,), {}), type("Same", (Pack,), {})
    one, other = (source([(1, 2)]).aggregate(op).add_sink(1).build(num_threads=1) for op in (plain(), packs(2)))
    states = through_json(one), through_json(other)
    for pipeline, state, had in ((one, states[1], 1), (other, states[0], 0)):
        with pytest.raises(ValueError, match=f"holds what {had} aggregators have left over"):
            pipeline.load_state_dict(state)


@pytest.mark.parametrize("op", [Pack(2), Each(), SortTold()])
def test_in_a_region_no_state_can_see_it(op: Aggregator[Any, Any]) -> None:
    builder = source([(n, n) for n in range(90)]).to(ThreadPoolExecutorConfig(1)).aggregate(op).to(MAIN_PROCESS)
    pipeline = builder.add_sink(1).build(num_threads=1)
    pipeline.state_dict()
    with pipeline.auto_stop():
        pipeline.get_item(timeout=60)
        with pytest.raises(RuntimeError, match="runs in a region, where a state cannot see what it keeps"):
            pipeline.state_dict()


def _take(held: list[int]) -> list[int] | None:
    """Take two of three items."""
    taken = held[:2] if len(held) > 2 else None
    if taken:
        del held[:2]
    return taken


class Quiet(Aggregator[int, Any]):
    """Says nothing of what it keeps."""

    def accumulate(self, item: int) -> Any:
        raise NotImplementedError

    def flush(self) -> None:
        return None


class InAttribute(Quiet):
    def __init__(self) -> None:
        self.held: list[int] = []

    def accumulate(self, item: int) -> Any:
        self.held.append(item)
        return _take(self.held)


class InSlot(InAttribute):
    __slots__ = ("held",)


class OfClass(Quiet):
    held: list[int] = []  # noqa: RUF012 - the mistake.

    def accumulate(self, item: int) -> Any:
        self.held.append(item)
        return _take(self.held)


class InText(Quiet):
    left = ""

    def accumulate(self, item: int) -> Any:
        text = self.left + str(item)
        whole, self.left = text[:-1], text[-1:]
        return whole or None


class InOther(Quiet):
    def __init__(self) -> None:
        self.other = InAttribute()

    def accumulate(self, item: int) -> Any:
        return self.other.accumulate(item)


class InPartial(Quiet):
    def __init__(self) -> None:
        self.take = partial(_add_and_take, [])

    def accumulate(self, item: int) -> Any:
        return self.take(item)


def _add_and_take(held: list[int], item: int) -> list[int] | None:
    held.append(item)
    return _take(held)


class InMethod(Quiet):
    """Has the methods of a list, and no name for it."""

    def __init__(self) -> None:
        held: list[int] = []
        self.add, self.size, self.pop = held.append, held.__len__, held.pop

    def accumulate(self, item: int) -> Any:
        self.add(item)
        return [self.pop(0), self.pop(0)] if self.size() > 2 else None


class Counts(Quiet):
    """A number may be a part of an item as well."""

    total = 0

    def accumulate(self, item: int) -> Any:
        self.total += item
        return self.total


class Splits(Quiet):
    """Keeps parts of an item."""

    left: tuple[int, ...] = ()

    def accumulate(self, item: int) -> Any:
        tokens = (*self.left, *(1_000 * item + n for n in range(3)))
        self.left = tokens[len(tokens) // 4 * 4 :]
        return tokens[: len(tokens) // 4 * 4] or None

    def held_back(self) -> list[int]:
        """Say that nothing is kept, which is true of whole items."""
        return []


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (InAttribute, "held"),
        (InSlot, "held"),
        (OfClass, "OfClass.held"),
        (InText, "left"),
        (InOther, "other"),
        (InPartial, "take"),
        (InMethod, "add"),
        (Counts, "total"),
        (Splits, "left"),
    ],
)
def test_what_may_be_kept_and_is_not_told_is_named(make: Callable[[], Quiet], name: str) -> None:
    pipeline = source(range(1_000, 1_020)).aggregate(make()).add_sink(1).build(num_threads=1)
    with pipeline.auto_stop():
        pipeline.get_item(timeout=60)
        pipeline.get_item(timeout=60)
        with pytest.raises(RuntimeError, match=f"after a result, its `{name}` may hold .*Give .* the methods"):
            pipeline.state_dict()


class Settings(Quiet):
    """Keeps nothing but what it was made with."""

    kinds = ("a", {"b": 1})

    def __init__(self, size: int, function: Callable[[Any], Any] = sorted) -> None:
        self.size, self.function = size, function
        self.table, self.weights = {"a": [1, 2]}, np.arange(4.0)
        self.held: list[int] = []

    def accumulate(self, item: int) -> Any:
        self.held.append(item)
        if len(self.held) < self.size:
            return None
        held, self.held = self.function(self.held), []
        return held


class Heap(Quiet):
    """Keeps whole items, beside numbers, and tells them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []
        self.count = 0

    def accumulate(self, item: int) -> Any:
        self.count += 1
        self.rows = sorted([*self.rows, (-item % 7, self.count, item)])
        if len(self.rows) < 4:
            return None
        first, self.rows = self.rows[:2], self.rows[2:]
        return [item for _, _, item in first]

    def flush(self) -> Any:
        rows, self.rows = self.rows, []
        return [item for _, _, item in rows] or None

    def held_back(self) -> list[int]:
        return [item for _, _, item in self.rows]


def largest_first(numbers: list[int], *, key: Callable[[int], int]) -> list[int]:
    return sorted(numbers, key=key, reverse=True)


class Logs(Settings):
    """Has what nothing is kept in, and uses it."""

    def __init__(self) -> None:
        super().__init__(4, partial(largest_first, key=operator.neg))
        self.log = logging.getLogger(__name__)
        self.adapter = logging.LoggerAdapter(self.log, {"stage": "pack"})
        self.add, self.stack, self.sort = np.add, np.stack, partial(np.sort, axis=0)

    def accumulate(self, item: int) -> Any:
        result = super().accumulate(item)
        if result is not None:
            self.log.debug("%s", self.sort(self.add(self.stack([result]), 0)))
            self.adapter.debug("a batch")
        return result


@pytest.mark.parametrize("make", [lambda: Settings(1), lambda: Settings(4), Heap, Logs])
def test_one_that_keeps_nothing_else_goes_on(make: Callable[[], Quiet]) -> None:
    def build() -> Pipeline[Any]:
        return source(range(1_000, 1_024)).aggregate(make()).disaggregate().add_sink(1).build(num_threads=1)

    for cut in range(24):
        (got,) = read_cut(build, (cut, None), 1)
        assert sorted(got) == list(range(1_000, 1_024))
