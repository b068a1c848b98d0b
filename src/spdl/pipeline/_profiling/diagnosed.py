"""How a process ends in diagnostic mode."""

from __future__ import annotations

__all__ = ["Diagnosed"]


class Diagnosed(SystemExit):
    """A pipeline was profiled instead of run, so the process ends. If it is a worker process, its parent does too."""
