"""Test that an aggregator may keep tensors where its pipeline is cut."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.pipeline.test_resume_leftovers import check_leftovers

torch = pytest.importorskip("torch", reason="needs torch")


@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float64])
def test_what_is_left_over_may_have_tensors(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The other tests do without it.
    monkeypatch.setitem(sys.modules, "torch", torch)
    check_leftovers(lambda values: torch.tensor(values, dtype=dtype))
