"""Workers are processes for datasets whose code changes what threads would share in ways that are easily overlooked."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pandas")
pytest.importorskip("datasets")

from tests.dataloader.pytorch.thread_kinds.helpers import Sharing  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

KINDS = [
    kind
    for name in ("scopes", "containers", "callbacks", "arrays", "classes")
    for kind in vars(importlib.import_module(f"tests.dataloader.pytorch.thread_kinds.unsafe_in_{name}")).values()
    if isinstance(kind, type) and issubclass(kind, Sharing) and kind is not Sharing
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_workers_are_processes(kind: Any) -> None:
    choice = PyTorchDataLoader(kind(), num_workers=2).worker_choice
    assert choice.kind == "process"
    assert "cannot be followed" not in choice.reason
