"""Test that loaders go on exactly where they were cut."""

from __future__ import annotations

import copy
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.damaged_states import not_refused
from tests.moments import AtMoments, Interrupt
from tests.source.calls import calls_of

import spdl.pipeline
from spdl.dataloader import DataLoader
from spdl.source import EpochSampler, merge_states
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType


def square(x: int) -> int:
    return x * x


def both(x: int) -> Iterator[int]:
    yield x
    yield -x


@pytest.mark.parametrize("preprocessor", [None, square, both], ids=["none", "function", "generator"])
@pytest.mark.parametrize("aggregator", [None, tuple], ids=["lists", "aggregated"])
@pytest.mark.parametrize("transfer", [False, True])
def test_the_same_batches_in_the_same_order(preprocessor: Any, aggregator: Any, *, transfer: bool) -> None:
    def make(batch_size: int) -> DataLoader[Any, Any]:
        return DataLoader(
            range(10),
            preprocessor=preprocessor,
            batch_size=batch_size,
            aggregator=aggregator,
            transfer_fn=(lambda batch: batch) if transfer else None,
            output_order="input",
            num_threads=3,
        )

    assert_resumes_exactly(make, epochs=2, items=list)


def test_the_same_items_in_any_order() -> None:
    assert_resumes_exactly(lambda: DataLoader(range(30), preprocessor=square, batch_size=4), ordered=False, epochs=2)


def test_without_batches() -> None:
    assert_resumes_exactly(lambda: DataLoader(range(12), preprocessor=square, output_order="input"), epochs=2)


def make() -> DataLoader[Any, Any]:
    return DataLoader(range(8), batch_size=2, output_order="input")


def test_taken_at_the_end_the_next_iteration_is_the_next_epoch() -> None:
    loader = make()
    assert loader.state_dict()["epoch"] == 0
    assert len(list(loader)) == 4
    state = loader.state_dict()
    assert state["epoch"] == 1
    resumed = make()
    resumed.load_state_dict(state)
    assert len(list(resumed)) == 4
    assert resumed.state_dict()["epoch"] == 2


def test_taken_before_the_end_is_seen_the_next_iteration_is_the_rest_of_it() -> None:
    loader = make()
    iterator = iter(loader)
    assert len(list(itertools.islice(iterator, 4))) == 4
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == []
    assert len(list(resumed)) == 4
    assert list(iterator) == []


def test_a_loop_that_was_left_is_gone_on_with() -> None:
    loader = make()
    for _ in loader:
        break
    state = loader.state_dict()
    assert state["epoch"] == 0
    resumed = make()
    resumed.load_state_dict(state)
    # Nothing has run yet.
    assert json.dumps(resumed.state_dict()) == json.dumps(state)
    assert list(resumed) == [[2, 3], [4, 5], [6, 7]]
    # The loader that was left begins the next epoch.
    assert len(list(loader)) == 4
    assert loader.state_dict()["epoch"] == 2


def test_another_batch_size() -> None:
    loader = make()
    iterator = iter(loader)
    next(iterator)
    resumed: DataLoader[Any, Any] = DataLoader(range(8), batch_size=5, output_order="input")
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == [[2, 3, 4, 5, 6], [7]]


def test_a_state_of_another_loader() -> None:
    loader = make()
    next(iter(loader))
    state = loader.state_dict()
    other: DataLoader[Any, Any] = DataLoader(range(9), batch_size=2)
    with pytest.raises(ValueError, match=r"range of length 8 .*; this pipeline has range of length 9"):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="other stages: aggregate; this pipeline has pipe square -> aggregate"):
        DataLoader(range(8), preprocessor=square, batch_size=2).load_state_dict(state)
    with pytest.raises(ValueError, match="is of a pipeline, and this is a dataloader"):
        make().load_state_dict(state["pipeline"])
    with pytest.raises(ValueError, match="version 2, and this release of spdl reads versions up to 1"):
        make().load_state_dict({**state, "version": 2})
    assert list(other) == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


@pytest.mark.parametrize("src", [list(range(12)), EpochSampler(12, rank=0, world_size=1, batch_size=2)])
@pytest.mark.parametrize("received", [0, 1, 3, 7])
def test_one_in_which_anything_is_removed_or_replaced(src: Any, received: int) -> None:
    def make() -> DataLoader[Any, Any]:
        return DataLoader(copy.deepcopy(src), batch_size=2, num_threads=2)

    loader = make()
    iterator = iter(loader)
    read = list(itertools.islice(iterator, received))
    assert len(read) == min(received, 6)
    state = json.loads(json.dumps(loader.state_dict()))
    target = make()
    before = target.state_dict()
    assert not_refused(target, state) == []
    assert target.state_dict() == before
    target.load_state_dict(state)
    assert json.loads(json.dumps(target.state_dict())) == state


def test_a_state_takes_little_work_however_long_the_epoch_is() -> None:
    loader: DataLoader[Any, Any] = DataLoader(EpochSampler(10**9, rank=0, world_size=1), batch_size=2, num_threads=2)
    iterator = iter(loader)
    next(iterator)
    # Calls of functions, which a busy machine does not change.
    assert calls_of(loader.state_dict) < 200


def test_it_is_what_torch_calls_stateful() -> None:
    stateful = pytest.importorskip("torch.distributed.checkpoint.stateful")
    assert isinstance(make(), stateful.Stateful)


def test_statistics() -> None:
    loader: DataLoader[Any, Any] = DataLoader(range(8), preprocessor=square, batch_size=2)
    assert loader.statistics().stages[1].num_completed == 0
    iterator = iter(loader)
    next(iterator)
    assert loader.statistics().stages[0].num_completed > 0
    assert len(list(iterator)) == 3
    assert loader.statistics().stages[1].num_completed == 8


PACKAGE = str(Path(spdl.pipeline.__file__).parent.parent)


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def make_squares(batch_size: int | None = None) -> DataLoader[Any, Any]:
    return DataLoader(range(8), batch_size=batch_size, output_order="input", num_threads=1)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_item_that_ctrl_c_costs_the_loop_counts_as_not_received(batch_size: int | None) -> None:
    whole = list(make_squares(batch_size))
    before = sys.gettrace()
    for place in itertools.count():
        loader = make_squares(batch_size)
        items: Any = iter(loader)
        got = [next(items), next(items)]
        tracer = Interrupt(place, is_ours)
        sys.settrace(tracer)
        try:
            got.append(next(items))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        states = [loader.state_dict()]
        items.close()
        states.append(loader.state_dict())
        for state in states:
            resumed = make_squares(batch_size)
            resumed.load_state_dict(state)
            assert [*got, *resumed] == whole, tracer.where
        if not tracer.where:
            break
    assert place > 5


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_state_of_a_signal_handler_does_not_count_an_item_on_its_way(batch_size: int | None) -> None:
    whole = list(make_squares(batch_size))
    loader = make_squares(batch_size)
    items: Any = iter(loader)
    assert next(items) == whole[0]
    # By the states, which differ only in how far the source has come.
    seen: dict[str, str] = {}
    before = sys.gettrace()
    sys.settrace(AtMoments(lambda where: seen.setdefault(json.dumps(loader.state_dict()), where), is_ours))
    try:
        assert next(items) == whole[1]
    finally:
        sys.settrace(before)
    assert seen
    for state, where in seen.items():
        resumed = make_squares(batch_size)
        resumed.load_state_dict(json.loads(state))
        assert list(resumed) == whole[1:], where
    resumed = make_squares(batch_size)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == whole[2:]
    items.close()


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize(("world_size", "batch_size"), [(2, 2), (3, 1), (1, 4)])
@pytest.mark.parametrize("received", [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1)])
def test_resumed_ranks_are_merged_whether_they_have_received_anything_or_not(
    first: int, world_size: int, batch_size: int, received: tuple[int, ...]
) -> None:
    def make(rank: int, world_size: int, batch_size: int) -> DataLoader[int, list[int]]:
        sampler = EpochSampler(
            20, batch_size=batch_size, shuffle=False, even_batches=False, rank=rank, world_size=world_size
        )
        return DataLoader(sampler, batch_size=batch_size, output_order="input", num_threads=2)

    def read(loaders: list[DataLoader[int, list[int]]], counts: Sequence[int]) -> list[int]:
        return [
            item
            for loader, count in zip(loaders, counts, strict=False)
            if count
            for batch in itertools.islice(loader, count)
            for item in batch
        ]

    loaders = [make(rank, 2, 2) for rank in range(2)]
    items = read(loaders, (first, first))
    state = json.loads(json.dumps(loaders[0].state_dict()))
    resumed = [make(rank, world_size, batch_size) for rank in range(world_size)]
    for loader in resumed:
        loader.load_state_dict(state)
    items += read(resumed, received)
    merged = json.loads(json.dumps(merge_states([loader.state_dict() for loader in resumed])))
    last = [make(rank, 3, 2) for rank in range(3)]
    for loader in last:
        loader.load_state_dict(merged)
    items += read(last, (20, 20, 20))
    assert sorted(items) == list(range(20))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("left_after", [1, 3])
def test_an_epoch_that_follows_one_that_was_left(left_after: int, *, shuffle: bool) -> None:
    def make() -> DataLoader[int, list[int]]:
        sampler = EpochSampler(2000, shuffle=shuffle, seed=1, rank=0, world_size=1)
        return DataLoader(sampler, batch_size=2, output_order="input", num_threads=1)

    whole = make()
    epochs = [list(whole) for _ in range(3)]
    loader = make()
    assert list(itertools.islice(loader, left_after)) == epochs[0][:left_after]
    batches = iter(loader)
    got = [next(batches) for _ in range(2)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert [*got, *batches] == epochs[1]
    resumed = make()
    resumed.load_state_dict(state)
    assert [*got, *resumed] == epochs[1]
    assert list(resumed) == epochs[2]
