"""The order of one epoch: drawn from the samplers, noted, and drawn again."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .random_states import GlobalStates, pack_generator, unpack_generator
from .requests import Request, is_stateful
from .sampler_parts import class_name, dependence_of, has_epoch, parts_of, private_generator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from .received import Received

__all__ = ["Sampling", "note_parts", "restore_parts", "tell_epochs"]


def note_parts(sampler: Any) -> list[dict[str, Any]]:
    """Return what each part of the sampler would start its next epoch from, as JSON has it."""
    return [_note_part(part, part.state_dict() if is_stateful(part) else None) for part in parts_of(sampler)]


def _note_part(part: Any, state: Any) -> dict[str, Any]:
    noted: dict[str, Any] = {"class": class_name(part)}
    if state is not None:
        noted["state"] = copy.deepcopy(state)
    elif (generator := private_generator(part)) is not None:
        noted["generator"] = pack_generator(generator.get_state())
    if has_epoch(part):
        noted["epoch"] = part.epoch
    return noted


def tell_epochs(sampler: Any, noted: list[dict[str, Any]]) -> None:
    """Tell the parts of the sampler the epochs that `note_parts` found."""
    for part, it in zip(parts_of(sampler), noted, strict=True):
        if "epoch" in it:
            part.set_epoch(it["epoch"])


def restore_parts(sampler: Any, noted: list[dict[str, Any]]) -> None:
    """Put the states and generators of the sampler's parts back to those that `note_parts` found."""
    for part, it in zip(parts_of(sampler), noted, strict=True):
        if "state" in it:
            part.load_state_dict(copy.deepcopy(it["state"]))
        elif "generator" in it and (generator := private_generator(part)) is not None:
            generator.set_state(unpack_generator(it["generator"]))


class Sampling:
    """How the order of an epoch came about.

    Args:
        sampler: Yields the indices of a batch at a time, or one index at a time if there are no batches.
        received: The batches that the consumer has; they are passed over.
        noted: What `note` returned when the order was drawn the first time, or None for a new one.
    """

    def __init__(self, sampler: Any, received: Received, noted: dict[str, Any] | None = None) -> None:
        self._sampler = sampler
        self._received = received
        self._parts = parts_of(sampler)
        self._dependence = dependence_of(self._parts)
        self._resumed = noted is not None
        self._at_iter: GlobalStates | None = None
        self._at_first: GlobalStates | None = None
        # The sampler that saves its own state, or its iterator that does.
        self._stateful: Any = self._parts[-1] if is_stateful(self._parts[-1]) else None
        # Its states, each after it was asked for the batch of that number.
        self._states: dict[int, Any] = {}
        # The number of the batch that comes first from the state that it starts with.
        self._first = 0
        self._start_state: Any = None
        if noted is None:
            self._noted_parts = note_parts(sampler)
            return
        self._noted_parts = noted["parts"]
        # Something else may have drawn from the same generator since.
        restore_parts(sampler, self._noted_parts)
        self._first = noted["position"]
        self._start_state = noted.get("iterator")
        self._at_iter = GlobalStates.unpack(noted["at_iter"]) if "at_iter" in noted else None
        self._at_first = GlobalStates.unpack(noted["at_first"]) if "at_first" in noted else None

    def note(self) -> dict[str, Any]:
        """Return what the rest of the order can be drawn from again, as JSON has it if the user's states are such."""
        noted: dict[str, Any] = {"parts": self._noted_parts, "position": self._first}
        if self._start_state is not None:
            noted["iterator"] = self._start_state
        below, _ = self._received.snapshot()
        if self._stateful is not None and below > self._first:
            state = self._states[below - 1]
            noted["position"] = below
            if self._stateful is self._parts[-1]:
                noted["parts"] = [*self._noted_parts[:-1], {**self._noted_parts[-1], "state": state}]
            else:
                noted["iterator"] = state
        if self._at_iter is not None:
            noted["at_iter"] = self._at_iter.pack()
        if self._at_first is not None:
            noted["at_first"] = self._at_first.pack()
        return noted

    def requests(self) -> Iterator[Request]:
        """Start the sampler, and return an iterator over the batches that the consumer has not received.

        Raises:
            RuntimeError: If the rest of an epoch is wanted, and a sampler was told another epoch meanwhile.
        """
        if self._resumed:
            _check_epochs(self._parts, self._noted_parts)
        elif self._dependence == "anything":
            self._at_iter = GlobalStates.note(only_torch=False)
        with _under(self._at_iter if self._resumed else None):
            indices = iter(self._sampler)
        if self._stateful is None and is_stateful(indices):
            self._stateful = indices
        if self._start_state is not None:
            indices.load_state_dict(copy.deepcopy(self._start_state))
        return self._number(indices)

    def _number(self, indices: Iterator[Any]) -> Iterator[Request]:
        if not self._resumed and self._dependence != "nothing":
            self._at_first = GlobalStates.note(only_torch=self._dependence == "torch")
        below, beyond = self._received.snapshot()
        number = self._first
        with _under(self._at_first if self._resumed else None):
            index = next(indices, _END)
            while index is not _END and number < below:
                number += 1
                index = next(indices, _END)
        passed_over = set(beyond)
        while index is not _END:
            if self._stateful is not None:
                self._keep_state(number)
            if number not in passed_over:
                yield Request(number, index)
            number += 1
            index = next(indices, _END)

    def _keep_state(self, number: int) -> None:
        self._states[number] = copy.deepcopy(self._stateful.state_dict())
        needed, _ = self._received.snapshot()
        for old in [it for it in self._states if it < needed - 1]:
            del self._states[old]


_END: Any = object()


def _under(states: GlobalStates | None) -> AbstractContextManager[None]:
    return nullcontext() if states is None else states.in_force()


def _check_epochs(parts: list[Any], noted: list[dict[str, Any]]) -> None:
    for part, it in zip(parts, noted, strict=True):
        if "epoch" in it and part.epoch != it["epoch"]:
            raise RuntimeError(
                f"The state that was loaded is from the middle of epoch {it['epoch']} of {class_name(part)}, and "
                f"`set_epoch({part.epoch})` was called since: its order is another one, so samples would be repeated "
                f"and left out. Call `set_epoch({it['epoch']})` for the rest of that epoch, or do not load the state."
            )
