"""Test what ops are told of their items."""

from __future__ import annotations

import functools
import multiprocessing
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.pipeline.support import run, source

from spdl.pipeline import ItemContext, Pipeline, TaskHook
from spdl.pipeline import ItemContext as Renamed
from spdl.pipeline.defs import Pipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def plain(x: Any, context: ItemContext) -> Any:
    return x, context


def keyword_only(x: Any, *, ctx: Renamed) -> Any:
    return x, ctx


def with_more(factor: int, x: Any, context: ItemContext, other: int = 3) -> Any:
    assert (factor, other) == (2, 3)
    return x, context


class Callable:
    def __call__(self, x: Any, context: ItemContext) -> Any:
        return x, context

    def method(self, x: Any, context: ItemContext) -> Any:
        return x, context


async def awaits(x: Any, context: ItemContext) -> Any:
    return x, context


def generates(x: Any, context: ItemContext) -> Iterator[Any]:
    yield x, context


async def generates_async(x: Any, context: ItemContext) -> AsyncIterator[Any]:
    yield x, context


ASKING: dict[str, Any] = {
    "function": plain,
    "keyword_only": keyword_only,
    "partial": functools.partial(with_more, 2),
    "object": Callable(),
    "method": Callable().method,
    "async": awaits,
    "generator": generates,
    "async_generator": generates_async,
}


NAMES_WHAT_IS_NOT_THERE = """
def op(x: Unknown, context: ItemContext) -> Unknown:
    return x, context
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="this Python evaluates annotations where they are written")
@pytest.mark.parametrize("names", [{}, {"ItemContext": ItemContext}])
def test_annotations_may_name_what_only_type_checkers_import(names: dict[str, Any]) -> None:
    # Without the future import of this file.
    exec(compile(NAMES_WHAT_IS_NOT_THERE, "a program", "exec", dont_inherit=True), names)  # noqa: S102 - the text above.
    ((item, context),) = run(source([4]).pipe(names["op"]))
    assert (item, context.epoch) == (4, 0)


class Hook(TaskHook):
    """A hook that sees the items and does nothing."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.seen.append(input_item)
        yield


@pytest.mark.parametrize("op", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("policy", [{}, {"retries": 1}, {"timeout": 60}, {"output_order": "input"}], ids=str)
@pytest.mark.parametrize("hooked", [False, True])
def test_ops_that_ask_are_told(op: Any, policy: dict[str, Any], *, hooked: bool) -> None:
    hook = Hook()
    builder = source([*"abc"]).pipe(op, concurrency=2, **policy).add_sink(3)
    pipeline = builder.build(num_threads=2, task_hook_factory=(lambda _: [hook]) if hooked else None)
    with pipeline.auto_stop():
        got = sorted(pipeline, key=lambda each: each[0])
    assert got == [(x, ItemContext(0, position, position)) for position, x in enumerate("abc")]
    assert not hooked or set(hook.seen) == set("abc")


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    kinds: dict[str, Any] = {
        "threads": ThreadPoolExecutor,
        "processes": functools.partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("forkserver")),
    }
    with kinds[request.param](2) as executor:
        yield executor


@pytest.mark.parametrize("op", [plain, functools.partial(with_more, 2), generates])
def test_in_executors(op: Any, executor: Executor) -> None:
    got = run(source([*"abc"]).pipe(op, executor=executor, output_order="input"))
    assert got == [(x, ItemContext(0, position, position)) for position, x in enumerate("abc")]


def two(x: Any, context: ItemContext) -> Iterator[Any]:
    yield context
    yield context


def last(_: Any, context: ItemContext) -> ItemContext:
    return context


def test_results_of_generators_have_numbers() -> None:
    contexts = run(source([7, 9]).pipe(two).pipe(two).pipe(last))
    assert contexts == [
        ItemContext(0, position, index, 0, (first, second))
        for position, index in enumerate([7, 9])
        for first in range(2)
        for second in range(2)
    ]
    assert len({context.key(1) for context in contexts}) == 8


def test_batches_have_members() -> None:
    contexts = run(source([7, 9, 11]).aggregate(2).pipe(last))
    first = (ItemContext(0, 0, 7), ItemContext(0, 1, 9))
    assert contexts == [replace(first[0], members=first), ItemContext(0, 2, 11, members=(ItemContext(0, 2, 11),))]
    assert contexts[0].keys(5) == [each.key(5) for each in first]
    assert contexts[0].key(5) not in contexts[0].keys(5)
    assert first[0].keys(5) == [first[0].key(5)]
    assert len({each.key(seed) for each in first for seed in (5, 6)}) == 4


def test_elements_of_batches_are_results_of_the_batch() -> None:
    contexts = run(source([7, 9]).aggregate(2).disaggregate().pipe(last))
    assert [context.results for context in contexts] == [(0,), (1,)]
    assert contexts[0].key(1) != contexts[1].key(1)


def test_epochs_and_a_resume() -> None:
    def make() -> Pipeline[Any]:
        return source([5, 6], continuous=True).pipe(last).add_sink(1).build(num_threads=1)

    with make().auto_stop() as pipeline:
        assert list(pipeline) == [ItemContext(0, 0, 5), ItemContext(0, 1, 6)]
        assert pipeline.get_item() == ItemContext(1, 0, 5)
        state = pipeline.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        assert list(resumed) == [ItemContext(1, 1, 6)]
        assert list(resumed) == [ItemContext(2, 0, 5), ItemContext(2, 1, 6)]


def test_indices_are_kept_no_longer_than_their_items() -> None:
    # Each is an object of its own, so that whoever keeps it is seen.
    indices = [10**6 + number for number in range(10_000)]
    seen = range(8_900)

    def kept() -> int:
        return sum(sys.getrefcount(indices[number]) for number in seen)

    before = kept()
    with source(indices).pipe(last).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        assert [pipeline.get_item(timeout=20).index for _ in indices] == indices
        # Those of the last thousand may still be there.
        assert kept() == before


def test_a_failed_item_is_shown_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    def op(x: str, context: ItemContext) -> str:
        if x == "b":
            raise ValueError(context.position)
        return x

    pipeline = source([*"abc"]).pipe(op).add_sink(3).build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == ["a", "c"]
    (failed,) = pipeline.failures()
    assert failed.item == "'b'"
    assert "ValueError: 1" in caplog.text


def two_parameters(x: Any, context: Any = "mine") -> Any:
    return x, context


def bound(x: Any, context: ItemContext) -> Any:
    return x, context


@pytest.mark.parametrize(
    "op",
    [
        two_parameters,
        functools.partial(two_parameters, context="mine"),
        functools.partial(bound, context=cast("Any", "mine")),
        lambda x, context="mine": (x, context),
    ],
)
def test_ops_that_do_not_ask_are_left_alone(op: Any) -> None:
    assert run(source([*"ab"]).pipe(op)) == [("a", "mine"), ("b", "mine")]


def item_last(context: ItemContext, x: Any) -> Any:
    return x, context


def positional(x: Any, context: ItemContext, /) -> Any:
    return x, context


def several(x: Any, context: ItemContext, other: ItemContext) -> Any:
    return x, context, other


@pytest.mark.parametrize("op", [item_last, positional, several])
def test_ops_that_cannot_be_called_are_refused(op: Any) -> None:
    with pytest.raises(TypeError, match="`op` must be an op of an item and at most one ItemContext"):
        Pipe(op)
