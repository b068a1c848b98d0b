"""The order of one epoch: drawn from the samplers, noted, and drawn again."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from spdl.dataloader._pytorch.fetching import BatchRequest, is_stateful
from spdl.dataloader._pytorch.random_states import Moment, pack_generator, unpack_generator
from spdl.pipeline._state.passes import knows_states

if TYPE_CHECKING:
    from spdl.dataloader._pytorch.state import ReceivedBatches


Dependence: TypeAlias = Literal["nothing", "torch", "anything"]
"""Which of the process's random number generators an order may depend on."""

Part: TypeAlias = dict[str, Any]
"""The record of a sampler: its ``class``, and its ``epoch``, its ``state`` or its ``generator``'s."""

_DETERMINISTIC = (SequentialSampler, DistributedSampler, list, tuple, range)
_BY_GENERATOR = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)

# Samplers that wrap each other in a circle are a mistake, which shows elsewhere.
_DEEPEST = 8


def parts_of(sampler: Any) -> list[Any]:
    """Return the sampler and those it is made of, the outermost first.

    A sampler that saves its own state is the last: what it is made of is its own affair.
    """
    parts = [sampler]
    while len(parts) < _DEEPEST and not is_stateful(parts[-1]):
        inner = getattr(parts[-1], "batch_sampler", None) or getattr(parts[-1], "sampler", None)
        if inner is None:
            break
        parts.append(inner)
    return parts


def private_generator(part: Any) -> Any:
    generator = getattr(part, "generator", None)
    return generator if isinstance(generator, torch.Generator) else None


def private_generators(parts: list[Any]) -> list[Any]:
    """Return the torch generators of the parts, in their order. A part that saves its own state saves its own."""
    found = [private_generator(part) for part in parts if not is_stateful(part)]
    return [generator for generator in found if generator is not None]


def dependence_of(parts: list[Any]) -> Dependence:
    """Return what the order may depend on apart from the samplers' own generators and states."""
    found: Dependence = "nothing"
    for part in parts:
        kind = type(part)
        if kind in _DETERMINISTIC or kind is BatchSampler or is_stateful(part):
            continue
        if kind not in _BY_GENERATOR:
            return "anything"
        if private_generator(part) is None:
            found = "torch"
    return found


def class_name(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def has_epoch(part: Any) -> bool:
    return callable(getattr(part, "set_epoch", None)) and type(getattr(part, "epoch", None)) is int


def note_parts(sampler: Any, *, generators: bool) -> list[Part]:
    return [_note_part(part, generators=generators) for part in parts_of(sampler)]


def _note_part(part: Any, *, generators: bool) -> Part:
    noted: Part = {"class": class_name(part)}
    if is_stateful(part):
        noted["state"] = copy.deepcopy(part.state_dict())
    elif generators and (generator := private_generator(part)) is not None:
        noted["generator"] = pack_generator(generator.get_state())
    if has_epoch(part):
        noted["epoch"] = part.epoch
    return noted


def announce_pass(parts: list[Any]) -> None:
    """Tell a sampler of `spdl.source` that its next pass begins.

    If its last pass was left, its state describes the rest, until it is asked for an iterator. A sampler around it may
    ask for one only when the first index is drawn. This one is dropped.
    """
    begin = getattr(parts[-1], "iterate_from", None)
    if is_stateful(parts[-1]) and callable(begin):
        begin(0)


def tell_epochs(sampler: Any, noted: list[Part]) -> None:
    for part, it in zip(parts_of(sampler), noted, strict=True):
        if "epoch" in it:
            part.set_epoch(it["epoch"])


def restore_parts(sampler: Any, noted: list[Part]) -> None:
    for part, it in zip(parts_of(sampler), noted, strict=True):
        if "state" in it:
            part.load_state_dict(copy.deepcopy(it["state"]))
        elif "generator" in it and (generator := private_generator(part)) is not None:
            generator.set_state(unpack_generator(it["generator"]))


def check_epochs(parts: list[Any], noted: list[Part]) -> None:
    for part, it in zip(parts, noted, strict=True):
        if "epoch" in it and part.epoch != it["epoch"]:
            raise RuntimeError(
                f"The state that was loaded is from the middle of epoch {it['epoch']} of {class_name(part)}, and "
                f"`set_epoch({part.epoch})` was called since: its order is another one, so samples would be repeated "
                f"and left out. Call `set_epoch({it['epoch']})` for the rest of that epoch, or do not load the state."
            )


def check_stages(parts: list[Any], noted: list[Part]) -> None:
    """Raise RuntimeError if a sampler has begun another stage of a mix with the state that `note_parts` found.

    The state of a loader counts batches, and may be from before the last one that was received.
    """
    for part, it in zip(parts, noted, strict=True):
        before = it["state"].get("mix") if isinstance(it.get("state"), dict) else None
        if before is not None and part.state_dict().get("mix") != before:
            raise RuntimeError(
                "The state is from another stage of a MixedOrder, and a PyTorchDataLoader continues only with the same "
                "one. Load the state of the sampler into the sampler of the new loader: what `state_dict()` of the "
                "sampler returned before the epoch, advanced by the batches that the loop has received: "
                "`batch_sampler.advance_state(before, batches)`."
            )


class _Computed:
    """Computes a sampler's state after a batch from that at the beginning, so a step costs nothing.

    `first` is the batch that it yields first; it is asked `size` times for the next element for each batch but the
    last.
    """

    def __init__(self, sampler: Any, first: int, size: int) -> None:
        self._sampler = sampler
        self._begin = copy.deepcopy(sampler.state_dict())
        self._first = first
        self._size = size

    def note(self, number: int) -> None:
        """Nothing to do."""

    def after(self, number: int) -> Any:
        return self._sampler.advance_state(copy.deepcopy(self._begin), (number + 1 - self._first) * self._size)


class _Asked:
    """Asks a sampler, or an iterator over it, for the state after each batch, and keeps those that may be wanted."""

    def __init__(self, stateful: Any, received: ReceivedBatches, first: int) -> None:
        self._stateful = stateful
        self._received = received
        self._states: dict[int, Any] = {}
        self._oldest = first

    def note(self, number: int) -> None:
        self._states[number] = copy.deepcopy(self._stateful.state_dict())
        # The last that was received is drawn again, from the state after the one before.
        while self._oldest < self._received.below - 2:
            self._states.pop(self._oldest, None)
            self._oldest += 1

    def after(self, number: int) -> Any:
        return self._states.get(number)


SamplerStates: TypeAlias = _Computed | _Asked


def begin_states(parts: list[Any], indices: Any, received: ReceivedBatches, first: int) -> SamplerStates | None:
    """Return the states from now on, just before the first batch is drawn.

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


class OrderNotes(NamedTuple):
    """Notes from which the rest of an order can be drawn again.

    Attributes:
        position: The number of the batch that the sampler yields first from its saved state; 0 if it saves none. It is
            the last that was received: after its last batch, a sampler's state may already describe the next epoch.
        drawn: The number of the next batch to draw. Those before are drawn by the noted generators.
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
        moments = {"at_iter": self.at_iter and self.at_iter.pack(), "at_first": self.at_first and self.at_first.pack()}
        return {**self._asdict(), **moments}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> OrderNotes:
        moments = {name: packed[name] and Moment.unpack(packed[name]) for name in ("at_iter", "at_first")}
        return cls(**{**packed, **moments})


_END: Any = object()


class DrawnOrder:
    """How the order of an epoch came about, or how it is drawn again from notes."""

    def __init__(self, sampler: Any, received: ReceivedBatches, notes: OrderNotes | None = None) -> None:
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
            self._start = OrderNotes(note_parts(sampler, generators=False))
        else:
            self._start = notes
            self._drawn = notes.drawn
        self._at_iter = self._start.at_iter
        if self._at_iter is None and self._dependence == "anything":
            self._at_iter = Moment.note(self._generators, of_all=True)
        self._at_first = self._start.at_first

    def note(self, received: int) -> OrderNotes:
        """Return what the rest of the order can be drawn from again, if all batches below one were received."""
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

    def requests(self) -> Iterator[BatchRequest]:
        """Start the sampler, and return an iterator over the batches that the consumer has not received."""
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

    def _number(self, indices: Iterator[Any]) -> Iterator[BatchRequest]:
        if self._start.at_first is None and (self._generators or self._dependence != "nothing"):
            of_all = self._dependence == "anything"
            self._at_first = Moment.note(self._generators, of_torch=self._dependence == "torch", of_all=of_all)
        self._states = begin_states(self._parts, indices, self._received, self._start.position)
        received = self._received.snapshot()
        again = []
        with self._under(self._start.at_first):
            for number in range(self._start.position, self._start.drawn):
                index = next(indices, _END)
                if index is _END:
                    # The sampler has become shorter.
                    break
                self._note_draw(number)
                if number not in received:
                    again.append(BatchRequest(number, index))
        yield from again
        number = max(self._start.position, self._start.drawn)
        while (index := next(indices, _END)) is not _END:
            self._note_draw(number)
            yield BatchRequest(number, index)
            number += 1

    def _note_draw(self, number: int) -> None:
        self._drawn = max(self._drawn, number + 1)
        if self._states is not None:
            self._states.note(number)

    def _under(self, moment: Moment | None) -> AbstractContextManager[None]:
        return nullcontext() if moment is None else moment.in_force(self._generators)
