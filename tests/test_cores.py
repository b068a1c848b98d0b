"""The number of cores as a container sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spdl import _cores

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 64.0), ("150000 100000", 1.5), ("6500000 100000", 64.0), ("nonsense", 64.0), (None, 64.0)],
)
def test_the_quota_bounds_the_affinity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, expected: float
) -> None:
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota + "\n")
    monkeypatch.setattr(_cores, "_QUOTA", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert _cores.available_cores() == expected
