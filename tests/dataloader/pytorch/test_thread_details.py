"""Workers are processes for datasets whose code changes what threads would share in ways that are easily overlooked."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pandas")
pytest.importorskip("datasets")

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

MODULES = [importlib.import_module(f"tests.dataloader.pytorch.thread_kinds.unsafe_details_{n}") for n in (1, 2, 3)]
KINDS = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, MODULES[0].B) and kind is not MODULES[0].B
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_workers_are_processes(kind: Any) -> None:
    choice = PyTorchDataLoader(kind(), num_workers=2).worker_choice
    assert choice.kind == "process"
    assert "cannot be followed" not in choice.reason
