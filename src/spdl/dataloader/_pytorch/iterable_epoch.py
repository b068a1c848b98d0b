"""One pass over an iterable dataset."""

from __future__ import annotations

import copy
import logging
from typing import Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .positions import Position, Positions
from .random_states import pack_generator, unpack_generator
from .requests import is_stateful

__all__ = ["IterableEpoch"]


_LG = logging.getLogger("spdl.dataloader")


class IterableEpoch:
    """How far the consumer is in each worker's part of an iterable dataset.

    Args:
        dataset: The dataset.
        num_workers: How many processes or threads iterate copies of the dataset. With 0, the consumer iterates it.
        generator: The loader's torch generator, or None.
        noted: What `note` returned for the same epoch in another process, or None for a new epoch.
    """

    def __init__(self, dataset: Any, num_workers: int, generator: Any, noted: dict[str, Any] | None) -> None:
        self.finished = False
        self.base_seed: int | None = None
        self.generator_state = None if generator is None else generator.get_state()
        self.begins = (Position(0, None),) * max(1, num_workers)
        self.first_worker = 0
        known = self.begins
        if not num_workers and is_stateful(dataset):
            # It may have been through epochs before.
            known = (Position(0, ["dataset", copy.deepcopy(dataset.state_dict())]),)
        if noted is not None:
            self.base_seed = noted["base_seed"]
            known = self.begins = tuple(Position(it["batches"], it["state"]) for it in noted["workers"])
            self.first_worker = noted["next_worker"]
            if generator is not None:
                self.generator_state = unpack_generator(noted["generator"])
                generator.set_state(self.generator_state)
            if passed := sum(it.batches for it in self.begins if it.state is None):
                _LG.warning(
                    "The rest of an epoch begins after %d batches. %s has no `state_dict`, so they are iterated over "
                    "again, and dropped.",
                    passed,
                    type(dataset).__name__,
                )
        self.progress = Positions(known, self.first_worker)

    def settle_seed(self, drawn: int) -> int:
        """Return the seed of the epoch's first worker: the one that was drawn, unless the epoch has one."""
        if self.base_seed is None:
            self.base_seed = drawn
        return self.base_seed

    def finish(self) -> None:
        """Note that there are no more batches, and that the consumer was told so."""
        self.finished = True

    def note(self) -> dict[str, Any]:
        """Return what the rest of the epoch can be loaded from. It changes nothing and takes no lock."""
        positions, worker = self.progress.snapshot()
        return {
            "workers": [it._asdict() for it in positions],
            "next_worker": worker,
            "base_seed": self.base_seed,
            "generator": None if self.generator_state is None else pack_generator(self.generator_state),
        }
