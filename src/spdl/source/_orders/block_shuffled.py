"""An order that reads whole blocks, and shuffles within a window of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_int, positive, refuse, refuse_masked
from spdl._random_key import random_key
from spdl.source._orders.order import LARGEST, KeyedPermutation, Order, Recent, check_positions, digest, random_order


class BlockShuffledOrder(Order):
    """A shuffled order that reads few blocks at a time: for tar shards, Parquet row groups, disks and object stores.

    The blocks come in a random order. Each `window` of blocks that follow each other in it are shuffled together, item
    by item. So a reader needs `window` blocks at a time, every block is needed during one window only, and an item can
    meet items from anywhere. All of this is computed from the seed, the epoch and the position.

    Args:
        n: The number of items, from 1 to 2**48.
        block: The number of items of each block (the last may have fewer); or the sizes of all blocks, whose
            sum is `n`. A number takes no memory, sizes take some 30 bytes for each block.
        window: How many blocks are shuffled together. More mix better, and need more open files or memory.
        seed: The run. Any int.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or the sizes do not add up to `n`.

    Example:
        >>> from spdl.source import BlockShuffledOrder, EpochSampler
        >>> order = BlockShuffledOrder(12, block=3, window=2, seed=1)
        >>> indices = list(EpochSampler(order, rank=0, world_size=1))
        >>> sorted(indices) == list(range(12)), len({index // 3 for index in indices[:6]})
        (True, 2)
    """

    _kind = "block-shuffled"

    def __init__(
        self, n: int, /, *, block: int | Sequence[int] | NDArray[np.int64], window: int = 16, seed: int = 0
    ) -> None:
        self._size = check_int("n", n, least=1, most=LARGEST)
        self._window = positive("window", window)
        self.seed = check_int("seed", seed, least=None)
        equal = not hasattr(block, "__len__")
        self._blocks = _EqualBlocks(self._size, block) if equal else _GivenBlocks(self._size, block)
        self._name = f"n={self._size}, block={self._blocks.name}, window={self._window}, seed={self.seed}"
        self._layout = Recent(self._lay_out)
        self._shuffle = Recent(self._make_shuffle, kept=8)

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        check_positions(positions, self._size)
        layout = self._layout(epoch)
        slots, _ = layout.slots(positions)
        windows = slots // self._window
        shuffled = np.empty_like(positions)
        for window in np.unique(windows).tolist():
            here = windows == window
            start, order = self._shuffle(epoch, window)
            shuffled[here] = start + order.take(positions[here] - start)
        slots, offsets = layout.slots(shuffled)
        return layout.blocks(slots) + offsets

    def _lay_out(self, epoch: int) -> _EqualSlots | _GivenSlots:
        return self._blocks.lay_out(random_key(self.seed, epoch, -7))

    def _make_shuffle(self, epoch: int, window: int) -> tuple[int, KeyedPermutation]:
        layout = self._layout(epoch)
        start = layout.start(window * self._window)
        size = layout.start((window + 1) * self._window) - start
        return start, KeyedPermutation(size, seed=random_key(self.seed, epoch, -8), epoch=window)


class _EqualBlocks:
    def __init__(self, size: int, block: object) -> None:
        self.size = size
        self.block = positive("block", block)
        self.full, self.rest = divmod(size, self.block)
        self.name = str(self.block)

    def lay_out(self, key: int) -> _EqualSlots:
        return _EqualSlots(self, key)


class _EqualSlots:
    """Full blocks in the order of a permutation, and the short one put in between somewhere: each block has a slot."""

    def __init__(self, blocks: _EqualBlocks, key: int) -> None:
        self._blocks = blocks
        self._order = KeyedPermutation(max(blocks.full, 1), seed=key)
        # The slot of the short block; without one, after all.
        self._short = key % (blocks.full + 1) if blocks.rest else blocks.full

    def slots(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots that positions lie in, and where in them."""
        block, rest = self._blocks.block, self._blocks.rest
        begin = self._short * block
        # As if the short block were a full one.
        padded = np.where(positions < begin + rest, positions, positions + (block - rest) * bool(rest))
        return padded // block, padded % block

    def start(self, slot: int) -> int:
        """Return the position at which a slot begins; after the last one, the number of items."""
        missing = self._blocks.block - self._blocks.rest if self._blocks.rest and slot > self._short else 0
        return min(slot * self._blocks.block - missing, self._blocks.size)

    def blocks(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        full = self._blocks.full
        short = (slots == self._short) & bool(self._blocks.rest)
        numbers = slots - ((slots > self._short) & bool(self._blocks.rest))
        numbers[short] = 0
        chosen = self._order.take(numbers)
        chosen[short] = full
        return chosen * self._blocks.block


class _GivenBlocks:
    def __init__(self, size: int, block: object) -> None:
        accepted = f"an int of at least 1, or the sizes of all blocks, which add up to {size}"
        refuse_masked("block", block)
        try:
            sizes = np.asarray(block)
        except ValueError:
            refuse(TypeError, "block", accepted, block)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
            refuse(TypeError, "block", accepted, block)
        if not sizes.size or sizes.min() < 1 or int(sizes.sum()) != size:
            refuse(ValueError, "block", accepted, block)
        self.sizes = sizes.astype(np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.name = f"{self.sizes.size} of sizes {digest(self.sizes.astype('<i8').tobytes())}"

    def lay_out(self, key: int) -> _GivenSlots:
        return _GivenSlots(self, random_order(key, self.sizes.size))


class _GivenSlots:
    """Blocks in an order that is written down."""

    def __init__(self, blocks: _GivenBlocks, order: NDArray[np.int64]) -> None:
        self._firsts = blocks.starts[order]
        self._starts = np.concatenate([[0], np.cumsum(blocks.sizes[order])])

    def slots(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found = np.searchsorted(self._starts, positions, side="right") - 1
        return found, positions - self._starts[found]

    def start(self, slot: int) -> int:
        return int(self._starts[min(slot, self._starts.size - 1)])

    def blocks(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._firsts[slots]
