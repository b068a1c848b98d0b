"""Fixtures for short measurements: the rules tested here do not depend on the precision of the figures."""

import pytest


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make measurements last a tenth of the time."""
    monkeypatch.setattr("spdl.pipeline._profiling.feed._LEAST_SECONDS", 0.02)
    monkeypatch.setattr("spdl.pipeline._profiling.feed.MOST_SECONDS", 0.1)
    monkeypatch.setattr("spdl.pipeline._profiling.measure.MOST_SECONDS", 0.1)


@pytest.fixture
def patient(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measurements take as long as they need."""
    monkeypatch.setattr("spdl.pipeline._profiling.feed.MOST_SECONDS", 20)
    monkeypatch.setattr("spdl.pipeline._profiling.measure.MOST_SECONDS", 20)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure stages only at a concurrency of 1, which keeps results in the order of the items."""
    monkeypatch.setattr("spdl.pipeline._profiling.profile._CONCURRENCIES", (1,))
