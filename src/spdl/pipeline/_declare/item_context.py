"""What an op may know of the item it works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl._random_key import random_key

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ItemContext"]

# Keep the keys of results, batches and further sources apart from each other, and from those of the items themselves.
_RESULT, _BATCH, _SOURCE = -1, -2, -3


@dataclass(frozen=True, slots=True)
class ItemContext:
    """Where an item comes from: its epoch, its place in it, and a random key of its own.

    An op gets it if a parameter besides the item is annotated with this class, whatever the parameter's name is. It is
    passed by keyword. Works for functions, generators, async ops, and ops in executors and in regions. Other ops cost
    nothing more.

    Attributes:
        epoch: The number of the pass over the source, from 0. It counts on after a resume. A `DataLoader` counts its
            iterations.
        position: The place of the source's item in that pass, from 0. An item that was gathered from several has that
            of the first, and one that no source has given has -1.
        index: The source's item itself if that is an int, as of samplers and ranges; else the position. So it does not
            depend on the order in which a sampler yields the indices, nor on how many processes share them.
        source: The number of the source; 0 unless several pipelines are merged.
        results: If generators made the item, which of their results it is, from the first generator to the last.
        members: If the item was gathered, such as a batch, the contexts of its members in their order. Of more than
            1,000 that an `Aggregator` gathered, the rest are sorted by position.

    Example:
        >>> import random
        >>> from spdl.pipeline import ItemContext, PipelineBuilder
        >>> def jitter(x: int, context: ItemContext) -> float:
        ...     return round(x + random.Random(context.key(seed=7)).uniform(-0.1, 0.1), 3)
        >>> def run(num_threads, order):
        ...     builder = PipelineBuilder().add_source(order).pipe(jitter, concurrency=num_threads)
        ...     with builder.add_sink().build(num_threads=num_threads).auto_stop() as pipeline:
        ...         return sorted(pipeline)
        >>> run(1, [0, 1, 2, 3]) == run(4, [3, 1, 0, 2])
        True
    """

    epoch: int
    position: int
    index: int
    source: int = 0
    results: tuple[int, ...] = ()
    members: tuple[ItemContext, ...] = ()

    def key(self, seed: int) -> int:
        """Return 64 random bits that depend on the seed, the epoch and the index alone.

        Threads, the order of loading, the number of processes and a resume do not matter. Make a generator of it, such
        as ``random.Random(key)`` or ``numpy.random.default_rng(key)``. Items that a generator made of one item have
        different keys. That of a batch is made of its first member's; see `keys` for those of the members.

        Args:
            seed: The seed of the run: any int.

        Raises:
            TypeError: If it is no int.
        """
        if self.members:
            key = random_key(self.members[0].key(seed), _BATCH, 0)
        else:
            key = random_key(seed, self.epoch, self.index)
            if self.source:
                key = random_key(key, _SOURCE, self.source)
        for number in self.results:
            key = random_key(key, _RESULT, number)
        return key

    def keys(self, seed: int) -> Sequence[int]:
        """Return the key of each member of a batch; of an item that was not gathered, its own key.

        Args:
            seed: The seed of the run: any int.

        Raises:
            TypeError: If it is no int.
        """
        return [member.key(seed) for member in self.members] if self.members else [self.key(seed)]
