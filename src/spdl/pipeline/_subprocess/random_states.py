"""Carries the state of the global random generators from one process to another."""

from __future__ import annotations

import random
import sys
from typing import Any

__all__ = ["RandomStates"]


class RandomStates:
    """A snapshot of the states. Taking it draws nothing from the generators.

    It holds the states of `random`, of numpy's functions (not of its Generators) and of torch on the CPU, if these
    libraries have been imported.

    Args:
        only_python: Whether it holds the first of these only.
    """

    def __init__(self, *, only_python: bool = False) -> None:
        self._python = random.getstate()
        self._numpy: Any = None
        self._torch: bytes | None = None
        if not only_python:
            self._take_libraries()

    def _take_libraries(self) -> None:
        numpy_random = sys.modules.get("numpy.random")
        self._numpy = None if numpy_random is None else numpy_random.get_state()
        torch = sys.modules.get("torch")
        # As bytes: a pickled tensor would refer to memory of a process that may end.
        self._torch = None if torch is None else bytes(torch.get_rng_state().tolist())

    def restore(self) -> None:
        """Set the generators of this process. This imports the libraries that the other process had imported."""
        random.setstate(self._python)
        if self._numpy is not None:
            import numpy as np  # noqa: PLC0415 - only if the other process had imported it.

            np.random.set_state(self._numpy)  # noqa: NPY002 - the global state is the one to carry over.
        if self._torch is not None:
            import torch  # noqa: PLC0415 - only if the other process had imported it.

            torch.set_rng_state(torch.tensor(list(self._torch), dtype=torch.uint8))
