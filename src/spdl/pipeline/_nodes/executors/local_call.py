"""A call that an executor of the user's makes, and that is recognised where it runs in this process."""

from __future__ import annotations

import sys
from functools import partial, update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

from spdl._counted import bytes_of_thread
from spdl.pipeline._engine.forked_child import end_forked_child
from spdl.pipeline._engine.own_calls import called_elsewhere
from spdl.pipeline._world import get_ident, perf_counter

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.engine import Engine

__all__ = ["LocalCall"]


class LocalCall:
    """Calls a function, and marks the thread as the pipeline's own meanwhile.

    So an op that stops its pipeline, or reads it, does not wait for itself. Where an executor's calls run is not known
    before; one that was pickled, to be sent elsewhere, arrives as the function alone and needs nothing of this package.
    """

    def __init__(self, engine: Engine, function: Callable[[Any], Any]) -> None:
        self.engine = engine
        self._function = function
        # Its duration in seconds; None if it has not run here.
        self.seconds: float | None = None
        # The bytes that it has read from stores.
        self.bytes_read = 0
        # Executors show their calls by name. What else is callable may run code of the user's when it is asked.
        if isinstance(function, FunctionType):
            update_wrapper(self, function, updated=())

    @called_elsewhere
    def __call__(self, value: Any) -> Any:
        if self.engine.stopping:
            # Nobody looks at the result any more.
            return None
        inside = self.engine.inside
        thread = get_ident()
        inside.append(thread)
        # What the thread has read for others does not count.
        bytes_of_thread()
        begin = perf_counter()
        try:
            return self._function(value)
        finally:
            if self.engine.forked:
                end_forked_child(self.engine, sys.exc_info()[1])
            self.seconds = perf_counter() - begin
            self.bytes_read = bytes_of_thread()
            inside.remove(thread)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (self._function,)
