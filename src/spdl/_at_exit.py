"""What is done before a process ends, if multiprocessing has started it.

Such a process, as ``torch.multiprocessing.spawn`` starts one for each rank, runs the finalizers of
``multiprocessing.util`` and then waits for its children, before or instead of what `atexit` knows. It has forgotten the
finalizers of the process that it was forked from.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LOOPS", "PIPELINES", "TRACES", "WORKERS", "before_children_are_awaited"]

# What comes first: whoever feeds a pipeline, then the pipelines, then what works for them, then what tells of them.
# Those of multiprocessing's own queues have 10 or less, and children are awaited after all of 0 or more.
LOOPS, PIPELINES, WORKERS, TRACES = 400, 300, 200, 100

_KNOWN: dict[Callable[[], object], int] = {}


def before_children_are_awaited(function: Callable[[], object], order: int) -> None:
    """Have a function called before this process waits for its children, once however often it is registered.

    To be called where something begins that has to be ended, beside an `atexit.register` where the module is imported.
    It does nothing in other processes than those of multiprocessing.

    Args:
        function: What to call. It may be called again by `atexit`.
        order: `LOOPS`, `PIPELINES`, `WORKERS` or `TRACES`: the higher comes first.
    """
    module = sys.modules.get("multiprocessing.process")
    if module is None or module.parent_process() is None or _KNOWN.get(function) == os.getpid():
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - the process has imported it.

    _KNOWN[function] = os.getpid()
    Finalize(None, function, exitpriority=order)
