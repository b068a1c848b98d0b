"""Test task hooks that raise or swallow exceptions."""

from __future__ import annotations

import re
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.aggregators import Pairs
from tests.pipeline.hooks.diaries import Swallowing, fail_on_one, fail_on_one_async
from tests.pipeline.hooks.kinds import Bystander
from tests.pipeline.support import source, twice, twice_async

from spdl.pipeline import PipelineFailure, TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline.defs import Aggregator


class Faulty(TaskHook):
    """A hook that raises at the given moment, for item 1."""

    def __init__(self, moment: str, error: BaseException | type[BaseException]) -> None:
        self.moment, self.error = moment, error

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        if input_item == 1 and self.moment == "enter":
            raise self.error
        yield
        if input_item == 1 and self.moment == "leave":
            raise self.error


def yields(op: Callable[[int], int], x: int) -> Iterator[int]:
    yield op(x)


@pytest.mark.parametrize("error", [ValueError, StopIteration, StopAsyncIteration, CancelledError])
@pytest.mark.parametrize("kind", ["function", "generator"])
@pytest.mark.parametrize("place", ["worker", "pool"])
def test_an_op_inside_hooks_loses_only_the_item_at_which_it_raises(
    error: type[Exception], kind: str, place: str
) -> None:
    """Also if asyncio or a generator would take the exception for an end."""

    def op(x: int) -> int:
        if x == 1:
            raise error
        return x

    with ThreadPoolExecutor(1) as pool:
        stage = partial(yields, op) if kind == "generator" else op
        builder = source(range(3)).pipe(stage, executor=pool if place == "pool" else None).add_sink(3)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Bystander()]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2]
    (failed,) = pipeline.failures()
    assert failed.positions == (1,)
    assert error.__name__ in failed.error
    assert pipeline.statistics().stages[1].num_completed == 2


class TellingPairs(Pairs[int]):
    """One that says which items it keeps past a result."""

    def held_back(self) -> list[int]:
        return self.held


class TestFaults:
    @pytest.mark.parametrize("moment", ["enter", "leave"])
    def test_a_hook_that_raises_drops_the_item_and_is_named(self, moment: str) -> None:
        builder = source(range(3)).pipe(str, name="op").add_sink(3)
        hook = Faulty(moment, OSError("no disk"))
        with builder.build(num_threads=1, task_hook_factory=lambda _: [hook]).auto_stop() as pipeline:
            assert list(pipeline) == ["0", "2"]
        (failed,) = pipeline.failures()
        assert failed.positions == (1,)
        assert "OSError: no disk" in failed.error
        assert "Raised by the task hook 'Faulty', not by the op" in failed.traceback
        assert pipeline.statistics().stages[1].num_failed == 1

    def test_a_hooks_failures_count(self) -> None:
        builder = source(range(9)).pipe(str, max_failures=0).add_sink(3)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Faulty("enter", OSError("no disk"))])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert isinstance(caught.value.exceptions[0].__cause__, OSError)
        pipeline.stop()

    @pytest.mark.parametrize("moment", ["enter", "leave"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_is_no_exception_fails_the_pipeline(self, moment: str, error: type[BaseException]) -> None:
        builder = source(range(9)).pipe(str).add_sink(3)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Faulty(moment, error)])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert isinstance(caught.value.exceptions[0].__cause__, error)
        pipeline.stop()

    @pytest.mark.parametrize(("moment", "expected"), [("enter", [[0, 2], [3]]), ("leave", [[0, 1], [2, 3]])])
    @pytest.mark.parametrize("aggregator", [Pairs, TellingPairs])
    def test_an_aggregate_loses_no_batch_to_a_hook(
        self, aggregator: type[Aggregator[int, list[int]]], moment: str, expected: list[list[int]]
    ) -> None:
        """An item that did not reach the aggregator is given up. One that did stays in the batch."""
        builder = source(range(4)).aggregate(aggregator()).add_sink(3)
        hook = Faulty(moment, OSError("no disk"))
        with builder.build(num_threads=1, task_hook_factory=lambda _: [hook]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == expected
        (failed,) = pipeline.failures()
        assert failed.positions[-1:] == (1,)

    @pytest.mark.parametrize("op", [twice, twice_async])
    def test_a_hook_may_swallow_the_end_of_a_generator(self, op: Callable[[int], Any]) -> None:
        builder = source([1, 2]).pipe(op, output_order="input" if op is twice else "completion").add_sink(3)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()]).auto_stop() as pipeline:
            assert sorted(pipeline.get_iterator(timeout=20)) == [1, 2, 101, 102]

    def test_what_a_hook_swallows_drops_the_item(self) -> None:
        builder = source(range(3)).pipe(fail_on_one).add_sink(3)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2]
        assert pipeline.failures() == []
        assert pipeline.statistics().stages[1].num_dropped == 1

    @pytest.mark.parametrize("moment", ["enter", "leave"])
    def test_a_stage_hook_that_raises_fails_the_pipeline(self, moment: str) -> None:
        class Raising(Faulty):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                if moment == "enter":
                    raise OSError("no disk")
                yield
                raise OSError("no disk")

        builder = source(range(3)).pipe(str).add_sink(9)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Raising("", OSError)])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        (error,) = caught.value.exceptions
        assert isinstance(error, OSError)
        assert any(note.endswith(":1:str") for note in error.__notes__)
        pipeline.stop()

    def test_a_stage_hook_without_its_decorator_is_told_at_the_build(self) -> None:
        class Forgot(Swallowing):
            async def stage_hook(self) -> AsyncIterator[None]:  # type: ignore[override]
                yield

        builder = source(range(3)).pipe(str).add_sink(1)
        with pytest.raises(ValueError, match=r"Forgot\.stage_hook` must return .*asynccontextmanager"):
            builder.build(num_threads=1, task_hook_factory=lambda _: [Forgot()])

    @pytest.mark.parametrize("returned", ["coroutine", "generator", None, 3])
    def test_a_task_hook_without_its_decorator_is_told_with_each_item(self, returned: Any) -> None:
        class Forgot(Swallowing):
            def task_hook(self, input_item: Any = None) -> Any:
                return {"coroutine": fail_on_one_async, "generator": twice_async}.get(returned, lambda _: returned)(1)

        pipeline = source(range(3)).pipe(str).add_sink(1).build(num_threads=1, task_hook_factory=lambda _: [Forgot()])
        with pytest.raises(PipelineFailure, match="failed"):
            list(pipeline.get_iterator(timeout=20))
        pipeline.stop()
        assert len(pipeline.failures()) == 3
        for failed in pipeline.failures():
            assert re.match(
                r"TypeError: `.*Forgot\.task_hook` must return an async context manager, got .*\. Decorate it with "
                r"`contextlib\.asynccontextmanager`\.",
                failed.error,
            )

    @pytest.mark.parametrize("wrong", [None, 3, [3], "hooks", Swallowing()])
    def test_a_factory_that_returns_something_else_is_told_at_the_build(self, wrong: Any) -> None:
        builder = source(range(3)).pipe(str).add_sink(1)
        with pytest.raises(TypeError, match=r"`task_hook_factory` must be a function that returns a list of TaskHook"):
            builder.build(num_threads=1, task_hook_factory=lambda _: wrong)
