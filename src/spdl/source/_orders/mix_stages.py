"""The stages of a mix: what one has drawn, and how the next one begins."""

# ruff: noqa: SLF001 - this is a part of MixedOrder.

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

from spdl.source._orders.mixed import MixedOrder, Unit
from spdl.source._orders.turns import Anchor, Phase, TokenTurns

_SHOWN = 5


class MixProgress(NamedTuple):
    """The beginning of a stage and its mix, from which all that it has drawn can be computed."""

    stage: int
    unit: Unit
    size: int
    weights: list[float]
    repeat: bool
    phases: Sequence[tuple[Phase, ...]]
    """For each part the sizes that it has had, and what was drawn of it before the stage."""
    tokens: list[int] | None
    """For each part the tokens that were drawn before the stage, if that is known."""
    near: Anchor | None = None
    """A place shortly before the state's, from which the way to it is short; None if it is short in any case."""

    def write(self) -> dict[str, Any]:
        near = None if self.near is None else [*self.near[:2], *map(list, self.near[2:])]
        phases = [[list(phase) for phase in phases] for phases in self.phases]
        return {**self._asdict(), "phases": phases, "near": near}

    @classmethod
    def read(cls, written: dict[str, Any]) -> MixProgress:
        phases = [tuple(Phase(*phase) for phase in each) for each in written["phases"]]
        near = written["near"] and Anchor(*written["near"][:2], *map(tuple, written["near"][2:]))
        return cls(**{**written, "phases": phases, "near": near})


def say_difference(order: MixedOrder, written: dict[str, Any]) -> str:
    """Return a sentence on what differs between a mix of a state and another one, which has another fingerprint."""
    saved = MixProgress.read(written)
    sizes = [phases[-1].size for phases in saved.phases]
    if len(sizes) != len(order.parts):
        return f" The mix of the state has {len(sizes)} parts, and this one {len(order.parts)}."
    ours = progress_of(order, 0, 0)
    compared: list[tuple[str, object, object]] = [
        (name, getattr(saved, name), getattr(ours, name)) for name in ("unit", "repeat", "size")
    ]
    for part, (before, now) in enumerate(zip(sizes, order._sizes, strict=True)):
        compared.append((f"number of items of part {part}", before, now))
    for part, (weight, own) in enumerate(zip(saved.weights, ours.weights, strict=True)):
        compared.append((f"weight of part {part}", weight, own))
    found = [f"the {name} was {before} and is {now}" for name, before, now in compared if before != now]
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} more differ"]
    if found:
        return f" Of the two mixes, {', '.join(found)}."
    return " The two mixes have the same numbers of items and weights: their seed, or a part or its own seed, differs."


def progress_of(order: MixedOrder, epoch: int, position: int) -> MixProgress:
    """Return what a later stage has to know of a mix. The position must not be after those that have been received."""
    phases = [corpus.phases for corpus in order._corpora]
    near = None
    if isinstance(order._turns, TokenTurns):
        near = order._turns.known_before(epoch * len(order) + position)
    return MixProgress(
        order.stage, order.unit, len(order), order.weights.tolist(), order.repeat, phases, order._tokens, near
    )


def _begin(order: MixedOrder, saved: MixProgress, size: int) -> None:
    order._begin(saved.phases, saved.tokens, size)
    if saved.near is not None and isinstance(order._turns, TokenTurns):
        order._turns.know(saved.near)


def begun(order: MixedOrder, saved: MixProgress) -> MixedOrder:
    """Return a mix that begins as in the run that saved a state of it."""
    if [phases[-1].size for phases in saved.phases] != order._sizes:
        # Its fingerprint will say so.
        return order
    mix = copy(order)
    counted = not order.repeat and order._num_samples is None
    _begin(mix, saved, saved.size if counted else len(order))
    return mix


def former(order: MixedOrder, saved: MixProgress) -> MixedOrder:
    """Return the mix of an earlier stage. ValueError if it cannot have been a mix of the same corpora."""
    sizes = [phases[-1].size for phases in saved.phases]
    if len(sizes) > len(order.parts):
        raise ValueError(
            f"it mixes {len(sizes)} parts, and this mix {len(order.parts)}. Keep the parts, with a weight of 0 if "
            "nothing of them may come"
        )
    for part, (before, now) in enumerate(zip(sizes, order._sizes, strict=False)):
        if before > now:
            raise ValueError(
                f"part {part} had {before} items and has {now}. Keep its items, with a weight of 0 if none may come"
            )
    if saved.unit == "tokens" and order._lengths is None:
        raise ValueError("it mixes by tokens. Pass `lengths`")
    parts = zip(order.parts, sizes, order._seeds, strict=False)
    mix = MixedOrder(
        [part if seed is None else size for part, size, seed in parts],
        sizes=sizes,
        weights=saved.weights,
        num_samples=saved.size,
        seed=order.seed,
        unit=saved.unit,
        lengths=order._lengths and [each[:size] for each, size in zip(order._lengths, sizes, strict=False)],
        stage=saved.stage,
    )
    mix.repeat = saved.repeat
    _begin(mix, saved, saved.size)
    return mix


def after(order: MixedOrder, before: MixedOrder, epoch: int, position: int) -> MixedOrder:
    """Return a mix as it begins after a place in an earlier stage."""
    items = before._turns.drawn(epoch * len(before) + position).tolist()
    phases: list[tuple[Phase, ...]] = []
    for corpus, drawn, size in zip(before._corpora, items, order._sizes, strict=False):
        *others, last = corpus.phases
        last = Phase(last.size, last.drawn + drawn)
        phases.append((*others, last) if size == last.size else (*others, last, Phase(size, 0)))
    new = order._sizes[len(phases) :]
    phases += [(Phase(size, 0),) for size in new]
    _, tokens = before.drawn(epoch, position)
    mix = copy(order)
    mix._begin(phases, None if tokens is None else [*tokens, *([0] * len(new))], None)
    return mix
