"""Random chains of stages, some of them in regions, against plain loops; and cut at a random moment, then resumed."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, Pipe, ProcessPoolExecutorConfig, ThreadPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = int(os.environ.get("SPDL_TEST_REGIONS", "8"))


class Kind(NamedTuple):
    """A kind of stage, and what it makes of an item; None if it gathers and takes apart again."""

    add: Callable[[PipelineBuilder[Any, Any], random.Random], Any]
    expect: Callable[[int], list[int]] | None


def _pipe(op: Any, expect: Callable[[int], list[int]], **options: Any) -> Kind:
    return Kind(lambda builder, rng: builder.pipe(op, concurrency=rng.choice([1, 3]), **options), expect)


def _paths(builder: PipelineBuilder[Any, Any], rng: random.Random) -> Any:
    paths = [[Pipe(ops.negative, concurrency=rng.choice([1, 2]))], [Pipe(ops.same), Pipe(ops.three)]]
    return builder.path_variants(ops.by_parity, paths)


KINDS = [
    _pipe(ops.same, lambda x: [x]),
    _pipe(ops.uneven, lambda x: [x]),
    _pipe(ops.negative, lambda x: [-x], output_order="input"),
    _pipe(ops.three, lambda x: list(ops.three(x))),
    _pipe(ops.odd_only, lambda x: [x] if x % 2 else []),
    _pipe(ops.fail_on_fives, lambda x: [x] if x % 5 else [], retries=1, retry_delay=0),
    _pipe(ops.later, lambda x: [x + 1]),
    _pipe(ops.twice_later, lambda x: [10 * x, 10 * x + 1]),
    Kind(_paths, lambda x: list(ops.three(x)) if x % 2 else [-x]),
    Kind(lambda builder, rng: builder.aggregate(rng.choice([2, 5])).disaggregate(), None),
]


class Case:
    """A chain, made by a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 - no secret.
        self.seed = seed
        self.kinds = [rng.choice(KINDS) for _ in range(rng.randrange(2, 6))]
        self.items = range(rng.choice([1, 20, 60]))
        first = rng.randrange(len(self.kinds))
        self.region = (first, rng.randrange(first + 1, len(self.kinds) + 1))
        self.workers = rng.choice([1, 2, 2])
        self.place = rng.choice([ProcessPoolExecutorConfig, ThreadPoolExecutorConfig])
        self.sizes = [rng.choice([None, 1, 7]) for _ in range(2)]
        # In a region each worker gathers for itself, which keeps no order.
        kinds = self.kinds[slice(*self.region)]
        self.exact = all(kind.expect is not None for kind in kinds)

    def build(self, *, continuous: bool = False) -> Pipeline[Any]:
        rng = random.Random(self.seed)  # noqa: S311 - as above.
        builder = PipelineBuilder[Any, Any]().add_source(self.items, continuous=continuous)
        for index, kind in enumerate([*self.kinds, None]):
            if index == self.region[1]:
                builder = builder.to(MAIN_PROCESS, **_size(self.sizes[1]))
            if index == self.region[0]:
                builder = builder.to(self.place(self.workers), **_size(self.sizes[0]))
            if kind is not None:
                builder = kind.add(builder, rng)
        return builder.add_sink().build(num_threads=2)

    def expected(self) -> list[int]:
        items = list(self.items)
        for kind in self.kinds:
            if kind.expect is not None:
                items = [y for x in items for y in kind.expect(x)]
        return items


def _size(size: int | None) -> dict[str, int]:
    return {} if size is None else {"buffer_size": size}


def possible(seed: int) -> Case:
    """Return a case whose result is not empty, and whose region may be declared."""
    for attempt in range(100):
        case = Case(1000 * seed + attempt)
        if not case.expected():
            continue
        try:
            case.build()
        except ValueError as error:
            if "cannot both keep the order and gather" not in str(error):
                raise
            continue
        return case
    raise AssertionError("no case")


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
@pytest.mark.parametrize("seed", range(CASES))
def test_a_chain_with_a_region(seed: int) -> None:
    case = possible(seed)
    expected = Counter(case.expected())
    with case.build(continuous=seed % 2 == 0).auto_stop() as pipeline:
        for _ in range(2 if seed % 2 == 0 else 1):
            assert Counter(pipeline.get_iterator(timeout=60)) == expected


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
@pytest.mark.parametrize("seed", range(CASES, 2 * CASES))
def test_a_chain_cut_at_a_random_moment(seed: int) -> None:
    case = possible(seed)
    expected = Counter(case.expected())
    rng = random.Random(seed)  # noqa: S311 - as above.
    with case.build().auto_stop() as pipeline:
        before = [pipeline.get_item(timeout=60) for _ in range(rng.randrange(sum(expected.values())))]
        state = json.loads(json.dumps(pipeline.state_dict()))
    resumed = case.build()
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        total = Counter(before + list(resumed.get_iterator(timeout=60)))
    if case.exact:
        assert total == expected
    else:
        # What a worker had gathered comes again as a whole, if it was taken apart and consumed in part.
        assert total >= expected
        assert total.keys() == expected.keys()
