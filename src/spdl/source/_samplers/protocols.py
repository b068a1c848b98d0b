"""Protocols of sources that can be shuffled or have a length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IterableWithShuffle", "SizedIterable", "SizedIterableWithShuffle"]

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class IterableWithShuffle(Protocol[T_co]):
    """An iterable whose order depends on a seed.

    Example:
        >>> from spdl.source import DistributedRandomSampler, IterableWithShuffle
        >>> isinstance(DistributedRandomSampler(9, rank=0, world_size=1), IterableWithShuffle)
        True
    """

    def __iter__(self) -> Iterator[T_co]: ...

    def shuffle(self, seed: int) -> None:
        """Choose the order of the passes that begin from now on.

        Args:
            seed: The same seed must give the same order on every machine.

        Raises:
            TypeError, ValueError: If the implementation does not accept the seed.
        """


@runtime_checkable
class SizedIterable(Protocol[T_co]):
    """An iterable that knows how many items a pass yields.

    Example:
        >>> from spdl.source import SizedIterable
        >>> isinstance([1, 2], SizedIterable), isinstance(iter([1, 2]), SizedIterable)
        (True, False)
    """

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...


@runtime_checkable
class SizedIterableWithShuffle(IterableWithShuffle[T_co], SizedIterable[T_co], Protocol[T_co]):
    """An iterable whose order depends on a seed, and that knows how many items a pass yields.

    Example:
        >>> from spdl.source import DistributedRandomSampler, SizedIterableWithShuffle
        >>> isinstance(DistributedRandomSampler(9, rank=0, world_size=1), SizedIterableWithShuffle)
        True
    """
