"""Which kind of workers a declaration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._declare.placement import InterpreterPoolExecutorConfig, ProcessPoolExecutorConfig

from .worker_interpreters import Interpreters
from .worker_processes import Processes
from .worker_threads import Threads

if TYPE_CHECKING:
    from spdl.pipeline._declare.placement import ExecutorConfig

    from .worker import Kind

__all__ = ["kind_of_workers"]


def kind_of_workers(config: ExecutorConfig) -> Kind:
    """Return what starts the workers."""
    if isinstance(config, ProcessPoolExecutorConfig):
        return Processes(config)
    return Interpreters() if isinstance(config, InterpreterPoolExecutorConfig) else Threads()
