"""Test sets of contiguous numbers against plain sets, also where a Ctrl-C cuts a change short."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._engine.groups import Results
from spdl.pipeline._engine.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

NUMBERS = st.permutations(range(12))


class Interrupting:
    """A tracer that raises KeyboardInterrupt before the n-th line of what runs in a `with` block."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(None)
        return kind is KeyboardInterrupt

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(("_engine/runs.py", "_engine/groups.py")):
            return None
        if event == "line":
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt
        return self


def change(number: int, steps: int, change_it: Callable[[int], None]) -> bool:
    """Make a change that is cut short after some steps. Return whether it was."""
    interrupting = Interrupting(steps)
    with interrupting:
        change_it(number)
    return interrupting.left < 0


@given(NUMBERS, st.integers(0, 12), st.dictionaries(st.integers(0, 11), st.integers(0, 12)))
def test_it_holds_what_was_added(order: list[int], split: int, cuts: dict[int, int]) -> None:
    sets = Runs(), Runs()
    expected: tuple[set[int], set[int]] = set(), set()
    for at, number in enumerate(order):
        runs, numbers = sets[at >= split], expected[at >= split]
        if not change(number, cuts.get(at, 10**9), runs.add):
            numbers.add(number)
        elif number in set(runs):
            # Before or after: nothing in between.
            numbers.add(number)
        assert list(runs) == sorted(numbers)
        assert bool(runs) == bool(numbers)
    sets[0].take_over(sets[1])
    assert list(sets[0].copy()) == sorted(expected[0] | expected[1])


@given(NUMBERS, st.dictionaries(st.integers(0, 11), st.integers(0, 15)))
def test_results_are_known_to_be_consumed(order: list[int], cuts: dict[int, int]) -> None:
    results = Results(0, {}, None)
    expected: set[int] = set()
    for at, number in enumerate(order):
        if not change(number, cuts.get(at, 10**9), results.note_done) or number in results.done():
            expected.add(number)
        assert results.done() == sorted(expected)
        assert results.is_begun() == bool(expected)


def test_contiguous_numbers_cost_nothing() -> None:
    runs = Runs()
    for number in range(0, 20_000, 2):
        runs.add(number)
    for number in range(1, 20_000, 2):
        runs.add(number)
    assert runs.pairs() == [(0, 20_000)]
    content = [value for name in Runs.__slots__ if isinstance(value := getattr(runs, name), dict)]
    assert [len(value) for value in content] == [1, 1]
    runs.remove_run(0)
    assert [len(value) for value in content] == [0, 0]
