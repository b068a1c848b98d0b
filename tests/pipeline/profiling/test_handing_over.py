"""Profiles say what it would cost this process to have the ops run in other ones."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, ProfileResult, profile_pipeline
from spdl.pipeline._profiling import profile_result

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _all_hold_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not show it."""
    monkeypatch.setattr(profile_result, "gil_use", lambda _: "holds")


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


def test_a_generator_has_all_its_results_handed_over() -> None:
    names = [str(number) for number in range(2000)]

    def one(_: int) -> Iterator[list[str]]:
        yield names

    def thirty(_: int) -> Iterator[list[str]]:
        yield from repeat(names, 30)

    few, many = (result_of(range(4), op).hand_over_seconds for op in (one, thirty))
    assert few is not None
    assert many is not None
    assert many > 5 * few


def test_what_cannot_be_pickled_is_not_measured() -> None:
    assert result_of(range(8), lambda _: memoryview(b"")).hand_over_seconds is None
    assert result_of([memoryview(b"")], lambda _: 0).hand_over_seconds is None


def test_other_ops_have_no_use_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def on_the_loop(number: int) -> int:
        return number

    assert result_of(range(8), on_the_loop).hand_over_seconds is None
    monkeypatch.setattr(profile_result, "gil_use", lambda _: "releases")
    assert result_of(range(8), lambda number: number).hand_over_seconds is None
