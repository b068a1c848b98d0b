"""What is said of stores whose reading is slow, for given counts."""

from __future__ import annotations

import pytest

from spdl.observe._verdict.diagnose import trouble
from spdl.pipeline import StoreCounts

AGAIN = "of the 1,000 requests of S were tried again"
TWICE = "5 % of the 1,000 requests of S were so late that they were sent twice."


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, ""),
        ({"requests": 19, "retries": 19, "cut": 19}, ""),
        ({"requests": 1000, "retries": 29, "cut": 29}, ""),
        ({"requests": 1000, "retries": 30, "cut": 20, "late": 10}, f"3 % {AGAIN}; 20 times the answer was cut."),
        ({"requests": 1000, "retries": 50, "late": 1}, f"5 % {AGAIN}; 1 time nothing was heard for too long."),
        ({"requests": 1000, "retries": 50}, f"5 % {AGAIN}."),
        ({"requests": 1000, "hedges": 29}, ""),
        ({"requests": 1000, "hedges": 50}, TWICE),
        ({"requests": 1000, "hedges": 50, "retries": 40, "cut": 40}, TWICE),
        ({"misses": 100, "uncached": 9}, ""),
    ],
)
def test_what_is_trouble(counts: dict[str, float], said: str) -> None:
    assert trouble([StoreCounts("S", counts)]) == (f" Reading is slowed down: {said}" if said else "")
    assert trouble([StoreCounts("fine", {"requests": 1000, "answers": 1000}), StoreCounts("S", counts)]).endswith(said)


def test_a_cache_that_keeps_nothing() -> None:
    said = trouble([StoreCounts("S", {"misses": 100, "uncached": 10})])
    assert "S could not keep 10 % of the 100 objects that it read" in said


def test_the_worst_is_spoken_of() -> None:
    some, worst = ({"requests": 100.0, "retries": retries, "cut": retries} for retries in (10.0, 30.0))
    assert "requests of worst were" in trouble([StoreCounts("some", some), StoreCounts("worst", worst)])
