"""Profiles say what it would cost this process to have the ops run in other ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, ProfileResult, profile_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine would not show it.
pytestmark = pytest.mark.usefixtures("short", "ops_hold_the_gil")


class Counted:
    """Counts how often it is pickled and unpickled."""

    pickled = unpickled = 0

    def __reduce__(self) -> Any:
        Counted.pickled += 1
        return _unpickled, ()


def _unpickled() -> Counted:
    Counted.unpickled += 1
    return Counted()


def result_of(items: Any, op: Any) -> ProfileResult:
    builder = PipelineBuilder().add_source(items).pipe(op).add_sink()
    (result,) = profile_pipeline(builder.get_config(), 50)
    return result


def test_items_are_pickled_and_results_unpickled() -> None:
    Counted.pickled = Counted.unpickled = 0
    first = result_of([Counted() for _ in range(50)], lambda _: 1)
    assert first.hand_over_seconds
    assert (Counted.pickled, Counted.unpickled) == (5, 0)
    # Those of one measurement only: they have to be pickled first.
    second = result_of(range(50), lambda _: Counted())
    assert second.hand_over_seconds
    assert 1 <= Counted.unpickled == Counted.pickled - 5 <= 5


def test_many_objects_take_as_long_as_pickle_takes() -> None:
    objects = [{"number": float(number), "name": str(number)} for number in range(10_000)]
    slow = result_of(range(8), lambda _: objects).hand_over_seconds
    quick = result_of(range(8), lambda number: number).hand_over_seconds
    assert slow is not None
    assert quick is not None
    assert slow > 20 * quick


class Slow:
    """Takes 20 ms to unpickle."""

    def __reduce__(self) -> Any:
        return _unpickled_slowly, ()


def _unpickled_slowly() -> Slow:
    time.sleep(0.02)
    return Slow()


def test_a_generator_has_all_its_results_handed_over() -> None:
    def one(_: int) -> Iterator[Slow]:
        yield Slow()

    def thirty(_: int) -> Iterator[Slow]:
        yield from (Slow() for _ in range(30))

    few, many = (result_of(range(4), op).hand_over_seconds for op in (one, thirty))
    assert few is not None
    assert many is not None
    assert many > 5 * few


def test_what_cannot_be_pickled_is_not_measured() -> None:
    assert result_of(range(8), lambda _: memoryview(b"")).hand_over_seconds is None
    assert result_of([memoryview(b"")], lambda _: 0).hand_over_seconds is None


def test_async_ops_have_no_use_for_it() -> None:
    async def on_the_loop(number: int) -> int:
        return number

    assert result_of(range(8), on_the_loop).hand_over_seconds is None


@pytest.mark.usefixtures("ops_release_the_gil")
def test_ops_that_release_the_gil_have_no_use_for_it() -> None:
    assert result_of(range(8), lambda number: number).hand_over_seconds is None
