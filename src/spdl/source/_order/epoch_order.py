"""The protocol of orders: which item comes at which position of which epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EpochOrder"]


@runtime_checkable
class EpochOrder(Protocol):
    """An order of items that can be entered anywhere, since it remembers nothing.

    Give one to `EpochSampler`, which shares it among ranks and can be cut and resumed. The package's own are
    `SequentialOrder`, `ShuffledOrder`, `BlockShuffledOrder`, `WeightedOrder`, `BucketedOrder` and `MixedOrder`.

    Example:
        >>> import numpy as np
        >>> from spdl.source import EpochOrder, EpochSampler
        >>> class Backwards:
        ...     fingerprint = "backwards(n=4)"
        ...
        ...     def __len__(self) -> int:
        ...         return 4
        ...
        ...     def take(self, epoch, positions):
        ...         return 3 - positions
        >>> isinstance(Backwards(), EpochOrder), list(EpochSampler(Backwards(), rank=0, world_size=1))
        (True, [3, 2, 1, 0])
    """

    @property
    def fingerprint(self) -> str:
        """A short text that two orders share only if they are the same order of the same number of items."""

    def __len__(self) -> int:
        """Return the number of positions of an epoch, the same in every epoch."""

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions, a pure function that several threads may call at once.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of one dimension, with numbers from 0 to ``len(self) - 1``.

        Raises:
            Exception: Any; the sampler's iterator passes it on.
        """
