"""Test merges of which a branch ends before the others, since a stage of it failed or nobody wants more of it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import text_log
from tests.pipeline.support import wait_until

from spdl.pipeline import Pipeline, PipelineFailure, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import Aggregate, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE = 10


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with text_log():
        yield


def same(x: Any) -> Any:
    return x


async def _together(_: object, inputs: Any, output: Any) -> None:
    """Merge epoch by epoch: an epoch ends when all branches have ended it, or have ended themselves."""
    left = list(inputs)
    while left:
        still = []
        end: Any = None
        for queue in left:
            while not is_eof(item := await queue.get()):
                if is_epoch_end(item):
                    end = item
                    still.append(queue)
                    break
                await output.put(item)
        left = still
        if left:
            await output.put(end)


def _continuous(items: Any) -> SourceConfig[Any]:
    return SourceConfig(items, continuous=True)


def _paths(faulty: Any, good: Any) -> PipelineConfig[Any]:
    return PipelineConfig(
        _continuous(range(4)), [PathVariants(lambda x: x % 2, [[faulty], [good]]), Pipe(same)], SinkConfig(100)
    )


def _batched(faulty: Any, good: Any) -> PipelineConfig[Any]:
    paths = PathVariants(lambda batch: [x % 2 for x in batch], [[faulty], [good]], batched=True)
    return PipelineConfig(_continuous(range(4)), [Aggregate(4), paths, Pipe(same)], SinkConfig(100))


def _sources(faulty: Any, good: Any, op: Any = None) -> PipelineConfig[Any]:
    branches = [
        PipelineConfig(_continuous(range(index, 4, 2)), [stage], SinkConfig(1))
        for index, stage in enumerate((faulty, good))
    ]
    return PipelineConfig(Merge(branches, op), [Pipe(same)], SinkConfig(100))


def _user_merge(faulty: Any, good: Any) -> PipelineConfig[Any]:
    return _sources(faulty, good, _together)


def _read_epochs(pipeline: Pipeline[Any], epochs: list[list[Any]]) -> None:
    with pipeline.auto_stop():
        while True:
            epochs.append([])
            epochs[-1].extend(pipeline.get_iterator(timeout=DEADLINE))


def _epochs_until_failure(pipeline: Pipeline[Any]) -> list[list[Any]]:
    epochs: list[list[Any]] = []
    with pytest.raises(PipelineFailure, match="stages failed"):
        _read_epochs(pipeline, epochs)
    return epochs


@pytest.mark.parametrize("make", [_paths, _batched, _sources, _user_merge])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_others_do_not_wait_for_a_branch_that_failed(
    make: Callable[[Any, Any], PipelineConfig[Any]], error: type[BaseException]
) -> None:
    def op(_: object) -> None:
        # The other branch has ended the epoch before this one fails.
        assert wait_until(other_has_ended)
        raise error

    def other_has_ended() -> bool:
        merges: list[Any] = [node for node in pipeline._engine.nodes if len(node.feeders) > 1]
        (merge,) = merges
        if make is _user_merge:
            return bool(merge.contents.epochs > 0)
        first = list(merge.inlets[1].entries)[:1]
        return first != [] and is_epoch_end(first[0][0])

    pipeline = build_pipeline(make(Pipe(op, max_failures=0), Pipe(same)), num_threads=2)
    (items, *others) = _epochs_until_failure(pipeline)
    # What the other branch had passed on came through, except for batches that lack a share. An epoch that the failed
    # branch has not ended is no epoch; a merge of the user's is told of the branch's end and decides for itself.
    assert items == ([] if make is _batched else [1, 3])
    assert make is _user_merge or others == []


@pytest.mark.parametrize("make", [_paths, _sources])
def test_an_epoch_that_all_branches_have_ended_is_passed_on(make: Callable[[Any, Any], PipelineConfig[Any]]) -> None:
    seen: list[int] = []
    epochs: list[list[int]] = []

    def op(item: int) -> int:
        seen.append(item)
        if len(seen) == 3:
            # The first epoch has been read to its end.
            assert wait_until(lambda: len(epochs) == 2)
            raise ValueError(item)
        return item

    pipeline = build_pipeline(make(Pipe(op, max_failures=0), Pipe(same)), num_threads=3)
    with pytest.raises(PipelineFailure, match="stages failed"):
        _read_epochs(pipeline, epochs)
    first, second, *others = epochs
    assert sorted(first) == [0, 1, 2, 3]
    assert sorted(second) in ([], [1], [1, 3])
    assert others == []


def test_a_branch_that_ends_by_itself_takes_part_in_no_epoch() -> None:
    async def one(_: object, inputs: Any, output: Any) -> None:
        await output.put(await inputs[0].get())

    ending = PipelineConfig(Merge([PipelineConfig(_continuous([9]), [], SinkConfig(1))], one), [], SinkConfig(1))
    lasting = PipelineConfig(_continuous(range(3)), [], SinkConfig(1))
    pipeline = build_pipeline(PipelineConfig(Merge([ending, lasting]), [Pipe(same)], SinkConfig(5)), num_threads=2)
    with pipeline.auto_stop():
        epochs = [list(pipeline.get_iterator(timeout=DEADLINE)) for _ in range(4)]
    assert [[item for item in epoch if item != 9] for epoch in epochs] == [[0, 1, 2]] * 4
    assert sum(epoch.count(9) for epoch in epochs) == 1


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_batch_of_which_a_path_has_lost_something_is_not_passed_on(*, asynchronous: bool) -> None:
    closed = threading.Event()

    def each(share: list[int]) -> Iterator[list[int]]:
        try:
            for x in share:
                yield [x]
        finally:
            closed.set()

    async def each_async(share: list[int]) -> Any:
        try:
            for x in share:
                yield [x]
                await asyncio.sleep(0)
        finally:
            closed.set()

    def op(share: list[int]) -> list[int]:
        if share == [4]:
            raise ValueError(share)
        return share

    def late(share: list[int]) -> list[int]:
        assert closed.wait(DEADLINE)
        # The engine has noted what has become of the generator.
        wait_until(lambda: not any(node.running for node in pipeline._engine.nodes if node.name == "each"), 1)
        return share

    paths = [
        [Pipe(each_async if asynchronous else each, name="each"), Pipe(op, max_failures=0)],
        [Pipe(late)],
    ]
    fork = PathVariants(lambda batch: [x % 2 for x in batch], paths, batched=True)
    config: PipelineConfig[Any] = PipelineConfig(SourceConfig([list(range(10))]), [fork], SinkConfig(3))
    pipeline = build_pipeline(config, num_threads=4)
    assert _epochs_until_failure(pipeline) == [[]]
