"""What a transform may know of its sample besides the data."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._random_key import random_key

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SampleContext", "takes_context"]

_TWO = 2


class SampleContext(NamedTuple):
    """The epoch and the index of a sample, and a random key that depends on these and the seed alone.

    Example:
        >>> SampleContext(seed=1, epoch=0, index=7).key == SampleContext(seed=1, epoch=0, index=7).key
        True
    """

    seed: int
    """The seed of the loader."""
    epoch: int
    """The number of the epoch."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position of the sample in the source."""

    @property
    def key(self) -> int:
        """An int from 0 to 2**64 - 1, as seed for random generators: the same wherever the sample is loaded."""
        return random_key(self.seed, self.epoch, self.index)


def takes_context(transform: Callable[..., Any]) -> bool:
    """Return whether a transform has to be called with a context as its second argument."""
    try:
        parameters = inspect.signature(transform).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters if each.kind in positional and each.default is inspect.Parameter.empty]
    return len(required) == _TWO
