"""A dataset that is pickled once for all worker processes."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.pipeline._transport.anonymous_memory import AnonymousMemory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["PickledOnce"]


class PickledOnce:
    """The pickle of a dataset in shared memory. A copy that was sent to a child process leads to the same memory.

    Args:
        dataset: The dataset.
        gate: Let in as many processes at once as may unpickle it. None lets all in.
    """

    def __init__(self, dataset: Any, gate: AbstractContextManager[Any] | None) -> None:
        pickled = pickle.dumps(dataset, protocol=5)
        self._gate = gate
        self._size = len(pickled)
        self._memory = AnonymousMemory(self._size)
        self._memory.back(0, self._size)
        with memoryview(self._memory.map()) as view:
            view[:] = pickled

    def load(self) -> Any:
        """Unpickle the dataset, and let go of the memory. It raises what unpickling raises."""
        try:
            with self._gate or nullcontext(), memoryview(self._memory.map()) as view:
                return pickle.loads(view)  # noqa: S301 - from our own parent process.
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the memory. It is freed when the last process has."""
        self._memory.close()
