"""Interpreters for the tests of what runs in them.

`concurrent.interpreters` is new in Python 3.14. Python 3.13 has the private module that it stands on, and there that
takes its place, so that everything but the few lines that make an interpreter is tested.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OLD", "needs_interpreters", "use_interpreters"]

OLD = sys.version_info < (3, 14)
needs_interpreters = pytest.mark.skipif(sys.version_info < (3, 13), reason="this Python has no interpreters to make")

_USERS = (
    "spdl.pipeline._elsewhere.iterate",
    "spdl.pipeline._elsewhere.region_workers",
)


class _Interpreter:
    """What `concurrent.interpreters.create` returns, on the private module of Python 3.13."""

    def __init__(self) -> None:
        self.module: Any = importlib.import_module("_interpreters")
        self.id = self.module.create("isolated")

    def prepare_main(self, **variables: Any) -> None:
        self.module.set___main___attrs(self.id, variables)

    def exec(self, program: str) -> Any:
        return self.module.exec(self.id, program)

    def close(self) -> None:
        self.module.destroy(self.id)


def use_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the package use what this Python has."""
    if not OLD:
        return
    for name in _USERS:
        make: Callable[[str], Any] = lambda _: _Interpreter  # noqa: E731 - for its type.
        monkeypatch.setattr(importlib.import_module(name), "interpreter_maker", make)
    placement = importlib.import_module("spdl.pipeline._declare.placement")
    monkeypatch.setattr(placement, "_FIRST_WITH_INTERPRETERS", (3, 0))
