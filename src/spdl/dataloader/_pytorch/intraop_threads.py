"""Has PyTorch's operators use one thread in worker threads, as they do in PyTorch's worker processes."""

from __future__ import annotations

import threading

import torch

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["IntraopThreads"]


class _Limited(threading.local):
    """Whether the operators of this thread were limited."""

    limited = False

    def note(self) -> None:
        """Note that they were."""
        self.limited = True


_HERE = _Limited()
_LIMITING = threading.Lock()


class IntraopThreads:
    """Limits the operators of the threads that load, each of which would otherwise start as many as there are cores.

    Made in the thread whose number of threads the rest of the program is to keep.
    """

    def __init__(self) -> None:
        self._number = torch.get_num_threads()

    def limit_to_one(self) -> None:
        """Limit the operators that the calling thread runs from now on."""
        if _HERE.limited or self._number == 1:
            return
        with _LIMITING:
            # PyTorch keeps a number for each thread that has begun to use its operators, which asking does, and the
            # last one that was set for those that begin later. So the number of the program is set once more, in a
            # thread that ends.
            torch.get_num_threads()
            torch.set_num_threads(1)
            restoring = threading.Thread(target=torch.set_num_threads, args=(self._number,), daemon=True)
            restoring.start()
            restoring.join()
        _HERE.note()
