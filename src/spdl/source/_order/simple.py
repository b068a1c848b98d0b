"""The two common orders: as they are, and shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_int
from spdl.source._order.permutation import KeyedPermutation
from spdl.source._order.positions import check_positions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SequentialOrder", "ShuffledOrder"]

_LARGEST = 2**48


class SequentialOrder:
    """The items from 0 to ``n - 1``, the same in every epoch.

    Args:
        n: How many, from 1 to 2**48.

    Raises:
        TypeError, ValueError: If `n` is no such int.

    Example:
        >>> from spdl.source import EpochSampler, SequentialOrder
        >>> list(EpochSampler(SequentialOrder(3), rank=0, world_size=1))
        [0, 1, 2]
    """

    def __init__(self, n: int, /) -> None:
        self._size = check_int("n", n, least=1, most=_LARGEST)

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        return f"sequential(n={self._size})"

    def __len__(self) -> int:
        return self._size

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:  # noqa: ARG002 - of the protocol.
        """Return the positions themselves.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``n - 1``, which is not copied.

        Raises:
            IndexError: If they are others.
        """
        check_positions(positions, self._size)
        return positions

    def __repr__(self) -> str:
        return f"SequentialOrder({self._size})"


class ShuffledOrder:
    """The items from 0 to ``n - 1`` in another random order each epoch: that of `KeyedPermutation`.

    Args:
        n: How many, from 1 to 2**48.
        seed: The run. Any int.

    Raises:
        TypeError, ValueError: If an argument is no such int.

    Example:
        >>> from spdl.source import EpochSampler, ShuffledOrder
        >>> sampler = EpochSampler(ShuffledOrder(100, seed=1), rank=0, world_size=1)
        >>> list(sampler) == list(sampler)
        False
    """

    def __init__(self, n: int, /, *, seed: int = 0) -> None:
        self._size = check_int("n", n, least=1, most=_LARGEST)
        self.seed = check_int("seed", seed, least=None)
        self._last: tuple[int, KeyedPermutation] | None = None

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        return f"shuffled(n={self._size}, seed={self.seed})"

    def __len__(self) -> int:
        return self._size

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``n - 1``.

        Raises:
            TypeError, IndexError: If they are others.
        """
        last = self._last
        if last is None or last[0] != epoch:
            # A pair, so that threads in different epochs never mix them up.
            last = self._last = (epoch, KeyedPermutation(self._size, seed=self.seed, epoch=epoch))
        return last[1].take(positions)

    def __repr__(self) -> str:
        return f"ShuffledOrder({self._size}, seed={self.seed})"
