"""Tells kinds of executors apart."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["kind_of"]


def kind_of(executor: Executor) -> Literal["threads", "processes", "unknown"]:
    """Return where an executor's calls run, as far as is known: in threads of this process, or in processes.

    A program that made a pool of processes or interpreters has imported its module, so nothing is imported here.
    """
    priority = sys.modules.get("spdl.pipeline._shared_executors.entrypoint")
    kind = type(executor) if priority is None else priority.executor_type_of(executor)
    interpreters = sys.modules.get("concurrent.futures.interpreter")
    if issubclass(kind, ThreadPoolExecutor) and not (
        interpreters is not None and issubclass(kind, interpreters.InterpreterPoolExecutor)
    ):
        return "threads"
    processes = sys.modules.get("concurrent.futures.process")
    if processes is not None and issubclass(kind, processes.ProcessPoolExecutor):
        return "processes"
    return "unknown"
