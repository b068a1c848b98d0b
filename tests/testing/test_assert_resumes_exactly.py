"""Test the public check of resuming: it must find what is lost, repeated or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.dataloader import ArrayLoader, DataLoader
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import EpochSampler
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator


class Loader:
    """A loader of numbers whose resume has a fault."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        numbers = list(range(6))
        while self.at < len(numbers):
            self.at += 1
            yield numbers[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        at = state["at"]
        if self.fault == "loses" and at == 3:
            at += 1
        if self.fault == "repeats" and at == 4:
            at -= 1
        self.at = at


def test_a_right_one_passes() -> None:
    assert_resumes_exactly(Loader)


@pytest.mark.parametrize(
    ("fault", "message"),
    [("loses", r"after step 3 .*Lost: 3\."), ("repeats", r"after step 4 .*Repeated: 3")],
)
def test_a_wrong_one_is_found(fault: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_resumes_exactly(lambda: Loader(fault))


def sharded(rank: int, world_size: int, batch_size: int) -> DataLoader[Any, Any]:
    sampler = EpochSampler(11, batch_size=batch_size, seed=5, rank=rank, world_size=world_size)
    return DataLoader(sampler, preprocessor=lambda x: x, batch_size=batch_size, output_order="input", num_threads=2)


def sharded_pipeline(rank: int, world_size: int) -> Pipeline[Any]:
    sampler = EpochSampler(17, seed=5, rank=rank, world_size=world_size)
    return (
        PipelineBuilder[Any, Any]()
        .add_source(sampler)
        .pipe(lambda x: x, concurrency=3)
        .add_sink(2)
        .build(num_threads=3)
    )


@pytest.mark.timeout(300)
def test_other_ranks_and_batches_go_on() -> None:
    assert_resumes_exactly(sharded, epochs=2)


@pytest.mark.timeout(300)
def test_ranks_whose_items_come_as_they_are_finished() -> None:
    assert_resumes_exactly(sharded_pipeline, ordered=False, world=(1, 2, 3))


class Forgets(DataLoader[Any, Any]):
    """Begins the epoch anew on all ranks."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        del state
        super().load_state_dict(self.state_dict())


def test_ranks_that_begin_anew_are_found() -> None:
    def make(rank: int, world_size: int) -> Forgets:
        return Forgets(EpochSampler(9, shuffle=False, rank=rank, world_size=world_size), batch_size=1)

    with pytest.raises(AssertionError, match="Repeated: "):
        assert_resumes_exactly(make, world=(1, 2))


def test_only_the_batch_size_changes() -> None:
    def make(batch_size: int) -> DataLoader[Any, Any]:
        return DataLoader(range(10), batch_size=batch_size, drop_last=True, output_order="input")

    assert_resumes_exactly(make)


def unknown_parameter(size: int) -> Loader:
    return Loader(str(size))


def only_rank(rank: int) -> Loader:
    return Loader(str(rank))


def test_batches_without_labels_are_their_data() -> None:
    def make(batch_size: int) -> ArrayLoader:
        source = [{"file": {"x": np.full(3, number)}} for number in range(7)]
        return ArrayLoader(source, batch_size, data="x", label=None, output="numpy")

    assert_resumes_exactly(make, batch=(2, 3))


def test_mistakes() -> None:
    wrong: Any
    for wrong in (3, unknown_parameter, only_rank):
        with pytest.raises(TypeError, match="`make` must be"):
            assert_resumes_exactly(wrong)
    with pytest.raises(ValueError, match="`cuts` must be numbers of steps up to 7"):
        assert_resumes_exactly(Loader, cuts=[8])
    wrong = 3
    with pytest.raises(TypeError, match=r"`cuts` must be numbers of steps, .* got 3"):
        assert_resumes_exactly(Loader, cuts=wrong)
    with pytest.raises(TypeError, match=r"`items` must be a function .* got 3"):
        assert_resumes_exactly(Loader, items=wrong)
    with pytest.raises(ValueError, match="`world` must be a sequence of ints"):
        assert_resumes_exactly(sharded, world=())
