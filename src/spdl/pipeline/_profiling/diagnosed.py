"""The exception that ends a process in diagnostic mode."""

from __future__ import annotations

__all__ = ["Diagnosed"]


class Diagnosed(SystemExit):
    """Raised to end the process after a pipeline was profiled instead of run. A worker process ends its parent too."""
