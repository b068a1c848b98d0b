"""How a process ends in diagnostic mode."""

from __future__ import annotations

__all__ = ["Diagnosed"]


class Diagnosed(SystemExit):
    """A pipeline was profiled instead of run, so the process ends. Where a worker process did it, its parent does too."""
