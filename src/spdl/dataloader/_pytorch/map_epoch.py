"""One pass over a map-style dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .random_states import pack_generator, unpack_generator
from .received import Received
from .sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .requests import Request

__all__ = ["MapEpoch"]


class MapEpoch:
    """What determines the batches of an epoch, and which of them the consumer has received.

    Args:
        sampler: Yields the indices of the batches.
        generator: The loader's torch generator, or None.
        noted: What `note` returned for the same epoch in another process, or None for a new epoch.
    """

    def __init__(self, sampler: Any, generator: Any, noted: dict[str, Any] | None) -> None:
        self.finished = False
        self.base_seed: int | None = None
        self.generator_state = None if generator is None else generator.get_state()
        self.progress = Received()
        if noted is not None:
            self.base_seed = noted["base_seed"]
            self.progress = Received(noted["received"], noted["beyond"])
            if generator is not None:
                self.generator_state = unpack_generator(noted["generator"])
                generator.set_state(self.generator_state)
        self.sampling = Sampling(sampler, self.progress, noted and noted["sampling"])

    def requests(self) -> Iterator[Request]:
        """Start the sampler, and return an iterator over what is to be loaded."""
        return self.sampling.requests()

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
        below, beyond = self.progress.snapshot()
        return {
            "received": below,
            "beyond": beyond,
            "base_seed": self.base_seed,
            "generator": None if self.generator_state is None else pack_generator(self.generator_state),
            "sampling": self.sampling.note(),
        }
