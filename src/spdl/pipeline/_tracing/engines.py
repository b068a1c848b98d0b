"""The pipelines of this process that may be traced while they run."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from spdl._processes import RenewedLock

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

__all__ = ["add_engine", "engines"]

_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()
_LOCK = RenewedLock()


def add_engine(engine: Engine) -> None:
    """Note a pipeline that was built."""
    with _LOCK:
        _ENGINES.add(engine)


def engines() -> list[Engine]:
    """Return those that are left."""
    with _LOCK:
        return list(_ENGINES)
