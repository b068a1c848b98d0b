"""What profiles of these tests are like: short, or patient, and whether their ops hold the GIL.

The rules tested here do not depend on the precision of the figures. A profile that takes its time has no place in a
test, and what it finds out of itself depends on how busy the machine is.
"""

import pytest

from spdl.pipeline import _measure, _profile
from spdl.pipeline._report import profile_result


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make measurements last a tenth of the time."""
    monkeypatch.setattr(_measure, "_LEAST_SECONDS", 0.02)
    monkeypatch.setattr(_measure, "MOST_SECONDS", 0.1)


@pytest.fixture
def patient(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials and measurements take as long as they need."""
    monkeypatch.setattr(_measure, "MOST_SECONDS", 20)
    monkeypatch.setattr(_measure, "_SLOW_SECONDS", 20)


@pytest.fixture
def brief(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """End measurements as soon as there were enough items."""
    monkeypatch.setattr(_measure, "_LEAST_SECONDS", 0)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure stages only at a concurrency of 1, which keeps results in the order of the items."""
    monkeypatch.setattr(_profile, "_CONCURRENCIES", (1,))


@pytest.fixture
def impatient_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read items of sources for a tenth of a second."""
    monkeypatch.setattr(_measure, "_MOST_SECONDS", 0.1)


@pytest.fixture
def ops_hold_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all ops found to hold the GIL."""
    monkeypatch.setattr(profile_result, "gil_use", lambda _: "holds")


@pytest.fixture
def ops_release_the_gil(ops_hold_the_gil: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all ops found to release the GIL, also where they were to hold it."""
    monkeypatch.setattr(profile_result, "gil_use", lambda _: "releases")
