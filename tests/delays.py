"""For tests on a busy machine: the mark of those that measure times, and reads that take as long as they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

# Runs a failed test again: a busy machine delays threads now and then, a defect always does.
tolerates_delays = pytest.mark.flaky(reruns=4, only_rerun=["AssertionError"])


def patiently(items: Iterator[T]) -> Iterator[T]:
    """Yield what an iterator yields whose reads have a timeout: the next read goes on where one took too long."""
    while True:
        try:
            item = next(items)
        except TimeoutError:
            continue
        except StopIteration:
            return
        yield item
