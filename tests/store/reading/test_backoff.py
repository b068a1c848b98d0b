"""Pauses lie between nothing and a bound that doubles; ``Retry-After`` is read in both of its forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store._reading.backoff import full_jitter, retry_after

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(failures=st.integers(1, 10_000), number=st.floats(0, 1))
def test_pauses_are_bounded(failures: int, number: float) -> None:
    pause = full_jitter(failures, lambda: number)
    assert pause == pytest.approx(number * min(10, 0.1 * 2 ** min(failures - 1, 60)))


@given(seconds=st.integers(-1000, 100_000))
def test_dates_and_seconds(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after({"retry-after": date}, lambda: NOW) == max(0, seconds)
    assert retry_after({"retry-after": str(seconds)}, lambda: NOW) == max(0, seconds)


@given(text=st.text("0123456789eE+-. :,JanMoGT", max_size=30))
def test_anything_else_is_no_wish(text: str) -> None:
    found = retry_after({"retry-after": text}, lambda: NOW)
    assert found is None or 0 <= found < float("inf")
    assert retry_after({}, lambda: NOW) is None
