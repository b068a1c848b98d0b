"""The check that all ranks take the same number of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import DataLoader
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedDeterministicSampler, EpochSampler, Refill
from spdl.testing import assert_equal_steps, assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline


def test_samplers_of_epochs_pass() -> None:
    for drop_last in (False, True):

        def make(rank: int, world_size: int, batch_size: int, *, drop: bool = drop_last) -> Any:
            return EpochSampler(
                101, batch_size=batch_size, rank=rank, world_size=world_size, drop_last=drop
            ).batch_sampler

        assert_equal_steps(make, epochs=3)


def test_uneven_samplers_fail() -> None:
    def make(rank: int, world_size: int) -> Any:
        return EpochSampler(100, rank=rank, world_size=world_size, even_batches=False)

    assert_equal_steps(make, world=(1, 2, 5))
    with pytest.raises(AssertionError, match="With 3 ranks, in epoch 0, rank 0 yields 33 batches and rank 2 yields 34"):
        assert_equal_steps(make)


def corrupt(index: int) -> int:
    if index in {4, 8, 12, 16, 20}:
        raise OSError(f"file {index} is corrupt")
    return index


def make_loader(op: Callable[[int], int], rank: int, world_size: int, batch_size: int) -> DataLoader[int, list[int]]:
    sampler = EpochSampler(40, batch_size=batch_size, shuffle=False, rank=rank, world_size=world_size)
    return DataLoader(sampler, preprocessor=op, batch_size=batch_size, num_threads=1, output_order="input")


def test_failures_on_one_rank_are_found() -> None:
    with pytest.raises(AssertionError, match=r"With 4 ranks and batch size 1, in epoch 0, rank 0 yields . batches"):
        assert_equal_steps(lambda rank, world_size, batch_size: make_loader(corrupt, rank, world_size, batch_size), [4])


def test_failures_that_are_refilled_do_not_matter() -> None:
    def make(rank: int, world_size: int, batch_size: int) -> DataLoader[int, list[int]]:
        return make_loader(Refill(corrupt, 40), rank, world_size, batch_size)

    assert_equal_steps(make)


def test_pipelines_are_started_and_stopped() -> None:
    made = []

    def make(rank: int, world_size: int) -> Pipeline[int]:
        sampler = DistributedDeterministicSampler(12, rank=rank, world_size=world_size)
        made.append(PipelineBuilder().add_source(sampler, continuous=True).add_sink().build(num_threads=1))
        return made[-1]

    assert_equal_steps(make, world=(2, 3))
    assert len(made) == 5


@pytest.mark.parametrize(
    ("make", "options", "error"),
    [
        (3, {}, TypeError),
        (list, {}, TypeError),
        (lambda rank, size: [], {}, TypeError),
        (lambda rank, world_size, other: [], {}, TypeError),
        (lambda rank, world_size: [], {"world": []}, ValueError),
        (lambda rank, world_size, batch_size: [], {"batch": []}, ValueError),
        (lambda rank, world_size: [], {"world": [0]}, ValueError),
        (lambda rank, world_size: [], {"epochs": 0}, ValueError),
        (lambda rank, world_size: [], {"world": 2.5}, TypeError),
        (lambda rank, world_size, batch_size: [], {"batch": [1, "2"]}, TypeError),
    ],
)
def test_senseless_arguments_are_refused(make: Any, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="must be"):
        assert_equal_steps(make, **options)


@pytest.mark.parametrize("check", [assert_equal_steps, assert_resumes_exactly])
def test_one_number_in_the_place_of_several_is_explained(check: Any) -> None:
    def make(rank: int, world_size: int, batch_size: int) -> None:
        pytest.fail(f"{rank}, {world_size} and {batch_size} should not have been tried")

    accepted = r"must be a sequence of ints of at least 1, each of which is tried, such as \(1, 2, 3\), got 3 \(.*\)\."
    with pytest.raises(TypeError, match=rf"^`world` {accepted} To try it alone, pass world=\[3\]\.$"):
        check(make, 3)
    with pytest.raises(TypeError, match=rf"^`batch` {accepted} To try it alone, pass batch=\[3\]\.$"):
        check(make, batch=3)
    with pytest.raises(ValueError, match=r"^`world\[1\]` must be an int of at least 1, got 0"):
        check(make, [1, 0])
