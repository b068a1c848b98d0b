"""The order of one epoch: drawn from the samplers, noted, and drawn again."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._pytorch.fetching import Request, is_stateful
from spdl.dataloader._pytorch.random_states import Moment
from spdl.dataloader._pytorch.samplers import (
    Part,
    announce_pass,
    begin_states,
    check_epochs,
    dependence_of,
    note_parts,
    parts_of,
    private_generators,
    restore_parts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from spdl.dataloader._pytorch.received import Received
    from spdl.dataloader._pytorch.samplers import SamplerStates

__all__ = ["Sampling", "SamplingNotes"]


class SamplingNotes(NamedTuple):
    """What the rest of an order can be drawn from again.

    Attributes:
        parts: What was noted of each part of the sampler.
        position: The number of the batch that the sampler yields first from its saved state; 0 if it saves none. It is
            the last that was received: after its last batch, a sampler's state may be that of the next epoch already.
        drawn: The number of the batch that was to be drawn next. Those before are drawn by the noted generators.
        iterator: The state of the sampler's iterator, if it saves one.
        at_iter: The generators when the sampler was asked for an iterator, if that may have drawn from them.
        at_first: The generators when the first batch was drawn. None if it was not, or drew nothing.
    """

    parts: list[Part]
    position: int = 0
    drawn: int = 0
    iterator: Any = None
    at_iter: Moment | None = None
    at_first: Moment | None = None

    def pack(self) -> dict[str, Any]:
        """Return the notes as JSON has them, if it has the user's states."""
        return {
            "parts": self.parts,
            "position": self.position,
            "drawn": self.drawn,
            "iterator": self.iterator,
            "at_iter": self.at_iter and self.at_iter.pack(),
            "at_first": self.at_first and self.at_first.pack(),
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> SamplingNotes:
        """Return the notes that were packed.

        Raises:
            ValueError, TypeError, KeyError: If it is not what `pack` returned.
        """
        return cls(
            packed["parts"],
            int(packed["position"]),
            int(packed["drawn"]),
            packed["iterator"],
            packed["at_iter"] and Moment.unpack(packed["at_iter"]),
            packed["at_first"] and Moment.unpack(packed["at_first"]),
        )


_END: Any = object()


class Sampling:
    """How the order of an epoch came about.

    Args:
        sampler: Yields the indices of a batch at a time, or one index at a time if there are no batches.
        received: The batches that the consumer has; they are passed over.
        notes: What was noted when the order was drawn the first time, or None for a new one.
    """

    def __init__(self, sampler: Any, received: Received, notes: SamplingNotes | None = None) -> None:
        self._sampler = sampler
        self._received = received
        self._parts = parts_of(sampler)
        self._generators = private_generators(self._parts)
        self._dependence = dependence_of(self._parts)
        self._resumed = notes is not None
        # The states of the sampler, or of the latest iterator over it; None if neither saves one, or nothing was drawn.
        self._states: SamplerStates | None = None
        self._drawn = 0
        if notes is None:
            announce_pass(self._parts)
            self._start = SamplingNotes(note_parts(sampler, generators=False))
        else:
            self._start = notes
            self._drawn = notes.drawn
        self._at_iter = self._start.at_iter
        if self._at_iter is None and self._dependence == "anything":
            self._at_iter = Moment.note(self._generators, of_all=True)
        self._at_first = self._start.at_first

    def note(self, received: int) -> SamplingNotes:
        """Return what the rest of the order can be drawn from again. It changes nothing.

        Args:
            received: The batches below this one were received.
        """
        notes = self._start._replace(drawn=self._drawn, at_iter=self._at_iter, at_first=self._at_first)
        if self._at_first is None and self._generators:
            # The order is not drawn yet, or a sampler that saves its own state has drawn it.
            now = note_parts(self._sampler, generators=True)
            kept = zip(now, notes.parts, strict=True)
            notes = notes._replace(parts=[{**new, **old} for new, old in kept])
        # The last that was received is drawn again: only so does the sampler come to its own end, and get ready for the
        # next epoch.
        position = received - 1
        if self._states is None or position <= notes.position or (state := self._states.after(position - 1)) is None:
            return notes
        if not is_stateful(self._parts[-1]):
            return notes._replace(position=position, iterator=state)
        return notes._replace(position=position, parts=[*notes.parts[:-1], {**notes.parts[-1], "state": state}])

    def requests(self) -> Iterator[Request]:
        """Start the sampler, and return an iterator over the batches that the consumer has not received.

        Raises:
            RuntimeError: If the rest of an epoch is wanted, and a sampler was told another epoch meanwhile.
        """
        if self._resumed:
            check_epochs(self._parts, self._start.parts)
            # Something else may have drawn from the same generators since.
            restore_parts(self._sampler, self._start.parts)
        elif self._dependence == "anything":
            self._at_iter = Moment.note(self._generators, of_all=True)
        with self._under(self._start.at_iter):
            indices = iter(self._sampler)
        if self._start.iterator is not None:
            indices.load_state_dict(copy.deepcopy(self._start.iterator))
        return self._number(indices)

    def _number(self, indices: Iterator[Any]) -> Iterator[Request]:
        if self._start.at_first is None and (self._generators or self._dependence != "nothing"):
            of_all = self._dependence == "anything"
            self._at_first = Moment.note(self._generators, of_torch=self._dependence == "torch", of_all=of_all)
        self._states = begin_states(self._parts, indices, self._received, self._start.position)
        below, beyond = self._received.snapshot()
        passed_over = {*beyond}
        again = []
        with self._under(self._start.at_first):
            for number in range(self._start.position, self._start.drawn):
                index = next(indices, _END)
                if index is _END:
                    # The sampler has become shorter.
                    break
                self._note_draw(number)
                if number >= below and number not in passed_over:
                    again.append(Request(number, index))
        yield from again
        number = max(self._start.position, self._start.drawn)
        while (index := next(indices, _END)) is not _END:
            self._note_draw(number)
            yield Request(number, index)
            number += 1

    def _note_draw(self, number: int) -> None:
        self._drawn = max(self._drawn, number + 1)
        if self._states is not None:
            self._states.note(number)

    def _under(self, moment: Moment | None) -> AbstractContextManager[None]:
        return nullcontext() if moment is None else moment.in_force(self._generators)
