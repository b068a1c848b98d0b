"""Indices in random order, shared among processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_flag, check_int, positive, refuse
from spdl._not_here import refuses
from spdl.source._orders.weighted import to_weights
from spdl.source._samplers.distributed import make_shard


class DistributedRandomSampler:
    """The indices of a dataset in random order. Each rank takes every ``world_size``-th.

    All ranks must get the same arguments except for `rank`. Each rank draws the whole sequence and yields its part, so
    together they yield every drawn index once, without communication. The order comes from
    ``numpy.random.default_rng(seed).choice``: the same on every machine with the same version of NumPy.

    Every pass yields the same indices until `shuffle` is called. `spdl.source.embed_shuffle` calls it for every pass,
    with the number of the pass in place of `seed`.

    Args:
        n: The size of the dataset, at least 1.
        rank: The number of this process, from 0.
        world_size: How many processes share the dataset.
        num_draws: How many indices all ranks together draw in a pass; None draws `n`. More than `n` need `weights`.
        weights: The chance of each of the `n` items to be drawn, in any unit. Items are then drawn with replacement:
            one may come several times in a pass, another not at all. None draws each item at most once.
        seed: The seed of the order; see `shuffle`.
        ddp_drop_last_distributed_round: Whether to yield the same number of indices in all ranks, which collective
            operations of distributed training need. Then ``num_draws % world_size`` fewer indices are drawn, and the
            seed decides which are left out. Otherwise some ranks yield one more than others.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, if `num_draws` is less than `world_size`, so that all would be
            dropped, if `weights` are not `n` numbers of at least 0, or if all of them are 0.

    Example:
        >>> from spdl.source import DistributedRandomSampler
        >>> ranks = [DistributedRandomSampler(6, rank=rank, world_size=2, seed=7) for rank in range(2)]
        >>> sorted(index for rank in ranks for index in rank) == list(range(6))
        True
    """

    @refuses({"num_replicas": "use `world_size`"})
    def __init__(
        self,
        n: int,
        /,
        *,
        rank: int,
        world_size: int,
        num_draws: int | None = None,
        weights: Sequence[float] | None = None,
        seed: int = 0,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        self._size = positive("n", n)
        num_draws = self._size if num_draws is None else positive("num_draws", num_draws)
        self._probabilities: NDArray[np.float64] | None = None
        if weights is not None:
            chances = to_weights(weights, self._size)
            # Divided by the largest first, since the sum of finite numbers may be infinite.
            chances /= chances.max()
            self._probabilities = chances / chances.sum()
        if weights is None and num_draws > self._size:
            remedy = "Each is drawn once. Pass `weights`, such as `[1.0] * n`, to draw items several times."
            refuse(ValueError, "num_draws", f"at most the {self._size} items of the dataset", num_draws, remedy)
        drop_last = check_flag("ddp_drop_last_distributed_round", ddp_drop_last_distributed_round)
        self._shard = make_shard(num_draws, rank, world_size, drop_last=drop_last, unit="draws")
        self.shuffle(seed)

    def shuffle(self, seed: int) -> None:
        """Choose the order of the passes that begin from now on.

        Args:
            seed: An int of at least 0, the same in all ranks.

        Raises:
            TypeError, ValueError: If `seed` is not an int of at least 0.
        """
        self._seed = check_int("seed", seed, least=0)

    def __iter__(self) -> Iterator[int]:
        rank, total, world_size = self._shard.start, self._shard.stop, self._shard.step
        drawn = np.random.default_rng(self._seed).choice(
            self._size, size=total, replace=self._probabilities is not None, p=self._probabilities
        )
        # A list of Python ints is iterated several times as quickly as an array, and its items are keys everywhere.
        return iter(drawn[rank::world_size].tolist())

    def __len__(self) -> int:
        return len(self._shard)
