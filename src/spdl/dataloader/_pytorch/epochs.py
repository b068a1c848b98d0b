"""One pass over a dataset."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._pytorch.fetching import is_stateful
from spdl.dataloader._pytorch.random_states import LoaderGenerator
from spdl.dataloader._pytorch.received import Position, Positions, Received
from spdl.dataloader._pytorch.sampling import Sampling, SamplingNotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.dataloader._pytorch.fetching import Request

__all__ = ["IterableEpoch", "MapEpoch"]


class MapEpoch:
    """What determines the batches of an epoch, and which of them the consumer has received.

    Args:
        sampler: Yields the indices of the batches.
        generator: The loader's torch generator, or None.
        packed: What `pack` returned for the same epoch in another process, or None for a new epoch.
        base_seed: The seed of the first worker, if the workers of a new epoch keep theirs.

    Raises:
        ValueError, TypeError, KeyError: If it is anything else.
    """

    def __init__(self, sampler: Any, generator: Any, packed: dict[str, Any] | None, base_seed: int | None) -> None:
        self.finished = False
        if packed is None:
            self._generator = LoaderGenerator(generator)
            if base_seed is not None:
                self._generator = LoaderGenerator.staying(generator, base_seed)
            self.progress = Received()
            self._sampling = Sampling(sampler, self.progress)
        else:
            self._generator = LoaderGenerator.unpack(generator, packed)
            self.progress = Received.unpack(packed["received"], packed["beyond"])
            self._sampling = Sampling(sampler, self.progress, SamplingNotes.unpack(packed["sampling"]))

    def requests(self) -> Iterator[Request]:
        """Start the sampler, and return an iterator over what is to be loaded."""
        return self._sampling.requests()

    def settle_seed(self, drawn: int) -> int:
        """Return the seed of the epoch's first worker: the one that was drawn, unless the epoch began elsewhere."""
        return self._generator.settle(drawn)

    @property
    def base_seed(self) -> int | None:
        """The seed of the epoch's first worker; None until it is drawn."""
        return self._generator.base_seed

    def finish(self) -> None:
        """Note that there are no more batches, and that the consumer was told so."""
        self.finished = True

    def pack(self) -> dict[str, Any]:
        """Return what the rest of the epoch can be loaded from. It changes nothing and takes no lock."""
        below, beyond = self.progress.snapshot()
        sampling = self._sampling.note(below).pack()
        return {"received": below, "beyond": beyond, **self._generator.pack(), "sampling": sampling}


_LG = logging.getLogger("spdl.dataloader")


class IterableEpoch:
    """How far the consumer is in each worker's part of an iterable dataset.

    Args:
        dataset: The dataset.
        num_workers: How many processes or threads iterate copies of the dataset. With 0, the consumer iterates it.
        generator: The loader's torch generator, or None.
        packed: What `pack` returned for the same epoch in another process, or None for a new epoch.
        base_seed: The seed of the first worker, if the workers of a new epoch keep theirs.

    Raises:
        ValueError, TypeError, KeyError: If it is anything else.
    """

    def __init__(
        self, dataset: Any, num_workers: int, generator: Any, packed: dict[str, Any] | None, base_seed: int | None
    ) -> None:
        self.finished = False
        if packed is None:
            self._generator = LoaderGenerator(generator)
            if base_seed is not None:
                self._generator = LoaderGenerator.staying(generator, base_seed)
            # Where the workers begin, and which of them is asked first.
            self.begins = (Position(0, None),) * max(1, len(range(num_workers)))
            self.first_worker = 0
            self.progress = Positions(self.begins)
            if not num_workers and is_stateful(dataset):
                # It may have been through epochs before.
                self.progress = Positions([Position(0, ["dataset", copy.deepcopy(dataset.state_dict())])])
            return
        self._generator = LoaderGenerator.unpack(generator, packed)
        self.begins = tuple(Position.unpack(it) for it in packed["workers"])
        self.first_worker = int(packed["next_worker"]) % len(self.begins)
        self.progress = Positions(self.begins, self.first_worker)
        self._name = type(dataset).__name__

    def settle_seed(self, drawn: int) -> int:
        """Return the seed of the epoch's first worker: the one that was drawn, unless the epoch began elsewhere."""
        return self._generator.settle(drawn)

    @property
    def base_seed(self) -> int | None:
        """The seed of the epoch's first worker; None until it is drawn."""
        return self._generator.base_seed

    def finish(self) -> None:
        """Note that there are no more batches, and that the consumer was told so."""
        self.finished = True

    def tell_what_is_repeated(self) -> None:
        """Log how much is iterated over once more, since the dataset has no state."""
        if passed := sum(it.batches for it in self.begins if it.state is None):
            _LG.warning(
                "The rest of an epoch begins after %d batches. %s has no `state_dict`, so they are iterated over "
                "again, and dropped.",
                passed,
                self._name,
            )

    def pack(self) -> dict[str, Any]:
        """Return what the rest of the epoch can be loaded from. It changes nothing and takes no lock."""
        positions, worker = self.progress.snapshot()
        return {"workers": [list(it) for it in positions], "next_worker": worker, **self._generator.pack()}
