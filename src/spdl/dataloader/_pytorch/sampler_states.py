"""The states of a sampler after each of the batches that it has yielded: computed, or asked for at each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

from torch.utils.data import BatchSampler

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.pipeline._engine.resumption import knows_states

from .requests import is_stateful

if TYPE_CHECKING:
    from .received import Received

__all__ = ["SamplerStates", "begin_states"]

_PLAIN = {int, str, float, bool, type(None)}


class SamplerStates(Protocol):
    """The states of what yields the indices of an epoch."""

    def note(self, number: int) -> None:
        """Note that the batch of this number was drawn, the last one so far."""

    def after(self, number: int) -> Any:
        """Return the state after a batch that was drawn, which is not the last one; None if it is not known."""


class _Computed:
    """Computes a state from that at the beginning, so a step costs nothing.

    Args:
        sampler: Has ``advance_state``, as `spdl.source.EpochSampler`.
        first: The number of the batch that it yields first.
        size: How many times it is asked for the next element for each batch but the last.
    """

    def __init__(self, sampler: Any, first: int, size: int) -> None:
        self._sampler = sampler
        self._begin = _copied(sampler.state_dict())
        self._first = first
        self._size = size

    def note(self, number: int) -> None:
        """Do nothing."""

    def after(self, number: int) -> Any:
        return self._sampler.advance_state(_copied(self._begin), (number + 1 - self._first) * self._size)


class _Asked:
    """Asks for the state after each batch, and keeps those that may be wanted.

    Args:
        stateful: A sampler or an iterator over one.
        received: The batches that the consumer has.
        first: The number of the batch that it yields first.
    """

    def __init__(self, stateful: Any, received: Received, first: int) -> None:
        self._stateful = stateful
        self._received = received
        self._states: dict[int, Any] = {}
        self._oldest = first

    def note(self, number: int) -> None:
        self._states[number] = _copied(self._stateful.state_dict())
        # The last that was received is drawn again, from the state after the one before.
        while self._oldest < self._received.below - 2:
            self._states.pop(self._oldest, None)
            self._oldest += 1

    def after(self, number: int) -> Any:
        return self._states.get(number)


def begin_states(parts: list[Any], indices: Any, received: Received, first: int) -> SamplerStates | None:
    """Return the states from now on, just before the first batch is drawn.

    Args:
        parts: The samplers, the outermost first.
        indices: The iterator over them.
        received: The batches that the consumer has.
        first: The number of the batch that is drawn first.

    Returns:
        None if neither the sampler nor the iterator saves a state, or if something around the sampler may read ahead of
        it, or group what it yields by a rule that the state does not know. The rest is then drawn from the beginning.
    """
    *around, sampler = parts
    if not is_stateful(sampler):
        return _Asked(indices, received, first) if is_stateful(indices) else None
    if [type(part) for part in around] not in ([], [BatchSampler]):
        return None
    if knows_states(type(sampler), "advance_state"):
        return _Computed(sampler, first, around[0].batch_size if around else 1)
    return _Asked(sampler, received, first)


def _copied(value: Any) -> Any:
    """Return a deep copy. What JSON has is copied several times as quickly as by the standard library."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {_copied(key): _copied(it) for key, it in value.items()}
    if kind is list:
        return [_copied(it) for it in value]
    return copy.deepcopy(value)
