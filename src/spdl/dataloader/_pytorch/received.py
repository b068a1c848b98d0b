"""One pass over a dataset, and which of its batches the consumer has received."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from spdl._ranges import Ranges
from spdl.dataloader._pytorch.fetching import BatchRequest, is_stateful
from spdl.dataloader._pytorch.random_states import pack_generator, unpack_generator
from spdl.dataloader._pytorch.samplers import DrawnOrder, OrderNotes


class Position(NamedTuple):
    """How far the consumer is in one worker's copy of an iterable dataset, which has a state or None."""

    batches: int
    state: Any


class StreamStep(NamedTuple):
    """A batch that was received, or failed and was told, and the turn, which counts those before it of all workers."""

    turn: int
    worker: int
    state: Any


class Positions:
    """The positions of all workers, and whose turn it is."""

    __slots__ = ("_settled", "latest")

    def __init__(self, positions: Sequence[Position], worker: int = 0) -> None:
        self._settled = 0, tuple(positions), worker
        # It is set by a mere assignment, as the last step before a batch is returned.
        self.latest: StreamStep | None = None

    @property
    def turn(self) -> int:
        return self._settled[0]

    def receive(self, step: StreamStep) -> None:
        self.settle()
        self.latest = step

    def settle(self) -> None:
        # In one assignment. From then on the latest is one that was settled already.
        self._settled = self._with_latest()

    def snapshot(self) -> tuple[tuple[Position, ...], int]:
        """Return the positions, and the worker whose batch comes next. It changes nothing."""
        _, positions, worker = self._with_latest()
        return positions, worker

    def _with_latest(self) -> tuple[int, tuple[Position, ...], int]:
        settled, latest = self._settled, self.latest
        turn, positions, _ = settled
        if latest is None or latest.turn != turn:
            return settled
        before = positions[latest.worker].batches
        moved = (
            *positions[: latest.worker],
            Position(before + 1, latest.state),
            *positions[latest.worker + 1 :],
        )
        return turn + 1, moved, (latest.worker + 1) % len(positions)


class ReceivedBatches:
    """The numbers of the batches that the consumer has received, here or in another process."""

    __slots__ = ("_settled", "latest")

    def __init__(self, received: Ranges | None = None) -> None:
        self._settled = received or Ranges()
        # It is set by a mere assignment, as the last step before a batch is returned: a signal handler sees either that
        # the batch was received, or a consumer that has not got it.
        self.latest: int | None = None

    @property
    def below(self) -> int:
        return self._settled.watermark

    def receive(self, number: int) -> None:
        self.settle()
        self.latest = number

    def settle(self) -> None:
        if self.latest is not None:
            self._settled.add(self.latest, self.latest + 1)
            self.latest = None

    def snapshot(self) -> Ranges:
        """Return the numbers. It changes nothing, so a signal handler may call it."""
        found = Ranges(self._settled.runs)
        if self.latest is not None:
            found.add(self.latest, self.latest + 1)
        return found


class EpochSeed(NamedTuple):
    """The seed of an epoch's first worker, None until it is drawn.

    `generator` is the state of the loader's own generator, if it has one: before torch draws the seed until that is
    `settled`, and then after it.
    """

    base: int | None
    generator: Any
    settled: bool = False


class _SeededEpoch:
    """One pass over a dataset, and the seed of its workers, drawn from the loader's torch generator or the global one.

    `packed` is what `pack` returned for the same epoch in another process. Workers that stay keep `base_seed`.
    """

    def __init__(self, generator: Any, packed: dict[str, Any] | None, base_seed: int | None) -> None:
        self.finished = False
        self._generator = generator
        if packed is None:
            self.seed = EpochSeed(base_seed, None if generator is None else generator.get_state())
        else:
            text = packed["generator"]
            self.seed = EpochSeed(packed["base_seed"], None if text is None else unpack_generator(text))
        self._resumed = self.seed.base is not None
        # Nothing may be drawn from the global generator either.
        self._global_state = torch.get_rng_state() if self._resumed and generator is None else None

    def settle_seed(self, drawn: int) -> int:
        """Return the seed of the epoch's first worker: the one that was drawn, unless the epoch began elsewhere."""
        if not self._resumed:
            self.seed = EpochSeed(drawn, None if self._generator is None else self._generator.get_state(), settled=True)
        elif self._global_state is not None:
            torch.set_rng_state(self._global_state)
        elif self.seed.generator is not None:
            self._generator.set_state(self.seed.generator)
        self.seed = self.seed._replace(settled=True)
        assert self.seed.base is not None
        return self.seed.base

    def pack_seed(self) -> dict[str, Any]:
        state = self.seed.generator
        return {"base_seed": self.seed.base, "generator": None if state is None else pack_generator(state)}

    def finish(self) -> None:
        self.finished = True


class MapEpoch(_SeededEpoch):
    """The inputs that determine the batches of an epoch, and the batches that the consumer has received.

    torch iterates over it in the place of the loader's sampler.
    """

    def __init__(self, sampler: Any, generator: Any, packed: dict[str, Any] | None, base_seed: int | None) -> None:
        super().__init__(generator, packed, base_seed)
        self._sampler = sampler
        received, notes = None, None
        if packed is not None:
            received, notes = Ranges.from_state(packed["received"]), OrderNotes.unpack(packed["sampling"])
        self.progress = ReceivedBatches(received)
        self._sampling = DrawnOrder(sampler, self.progress, notes)

    def __iter__(self) -> Iterator[BatchRequest]:
        return self._sampling.requests()

    def __len__(self) -> int:
        return len(self._sampler)

    def pack(self) -> dict[str, Any]:
        """It changes nothing and takes no lock."""
        received = self.progress.snapshot()
        sampling = self._sampling.note(received.watermark).pack()
        return {"received": received.to_state(), **self.pack_seed(), "sampling": sampling}


_LG = logging.getLogger("spdl.dataloader")


class IterableEpoch(_SeededEpoch):
    def __init__(
        self, dataset: Any, num_workers: int, generator: Any, packed: dict[str, Any] | None, base_seed: int | None
    ) -> None:
        super().__init__(generator, packed, base_seed)
        self._name = type(dataset).__name__
        # The positions at which the workers begin, and the worker that is asked first.
        self.begins = (Position(0, None),) * max(1, len(range(num_workers)))
        self.first_worker = 0
        if packed is not None:
            self.begins = tuple(Position(*it) for it in packed["workers"])
            self.first_worker = packed["next_worker"]
        self.progress = Positions(self.begins, self.first_worker)
        if packed is None and not num_workers and is_stateful(dataset):
            # It may have been through epochs before.
            self.progress = Positions([Position(0, ["dataset", copy.deepcopy(dataset.state_dict())])])

    def tell_what_is_repeated(self) -> None:
        if passed := sum(it.batches for it in self.begins if it.state is None):
            _LG.warning(
                "The rest of an epoch begins after %d batches. %s has no `state_dict`, so they are iterated over "
                "again, and dropped.",
                passed,
                self._name,
            )

    def pack(self) -> dict[str, Any]:
        """It changes nothing and takes no lock."""
        positions, worker = self.progress.snapshot()
        return {"workers": [list(it) for it in positions], "next_worker": worker, **self.pack_seed()}
