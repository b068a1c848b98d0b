"""The state of the global random generators, carried from one process to another."""

from __future__ import annotations

import random
import sys
from typing import Any

__all__ = ["RandomStates"]


class RandomStates:
    """The states at the time when it was made; making it draws nothing from the generators.

    Those of `random`, of numpy's functions (not of its Generators) and of torch on the CPU, as far as the libraries
    have been imported.
    """

    def __init__(self) -> None:
        self._python = random.getstate()
        numpy_random = sys.modules.get("numpy.random")
        self._numpy: Any = None if numpy_random is None else numpy_random.get_state()
        torch = sys.modules.get("torch")
        # As bytes: a tensor would be pickled as something that its process must live for.
        self._torch: bytes | None = None if torch is None else bytes(torch.get_rng_state().tolist())

    def restore(self) -> None:
        """Set the generators of this process. Imports what had been imported in the other one."""
        random.setstate(self._python)
        if self._numpy is not None:
            import numpy as np  # noqa: PLC0415 - only where the other process has it, too.

            np.random.set_state(self._numpy)  # noqa: NPY002 - that is the one to carry over.
        if self._torch is not None:
            import torch  # noqa: PLC0415 - as above.

            torch.set_rng_state(torch.tensor(list(self._torch), dtype=torch.uint8))
