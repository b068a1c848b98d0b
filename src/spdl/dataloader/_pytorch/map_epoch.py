"""One pass over a map-style dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .loader_generator import LoaderGenerator
from .received import Received
from .sampling import Sampling, SamplingNotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .requests import Request

__all__ = ["MapEpoch"]


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
