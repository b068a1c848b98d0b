"""Short measurements: what is tested here are the rules, which do not depend on how precise the figures are."""

import pytest


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have measurements last a tenth of the time."""
    monkeypatch.setattr("spdl.pipeline._profiling.feed._LEAST_SECONDS", 0.02)
    monkeypatch.setattr("spdl.pipeline._profiling.feed.MOST_SECONDS", 0.1)
    monkeypatch.setattr("spdl.pipeline._profiling.measure.MOST_SECONDS", 0.1)


@pytest.fixture
def patient(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have measurements go on as long as it takes to see enough."""
    monkeypatch.setattr("spdl.pipeline._profiling.feed.MOST_SECONDS", 20)
    monkeypatch.setattr("spdl.pipeline._profiling.measure.MOST_SECONDS", 20)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stages measured at a concurrency of 1 alone, where results keep the order of the items they are for."""
    monkeypatch.setattr("spdl.pipeline._profiling.profile._CONCURRENCIES", (1,))
