"""The protocol of orders, and the two common ones: sequential and shuffled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from math import isqrt
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_int, refuse, refuse_masked
from spdl._random_key import random_key


def check_positions(positions: NDArray[np.int64], size: int) -> None:
    # As numbers without a sign, negative ones are too large.
    if positions.size and int(positions.astype(np.int64, copy=False).view(np.uint64).max()) >= size:
        raise IndexError(f"positions must be from 0 to {size - 1}, got {positions.min()} to {positions.max()}")


def digest(text: str | bytes) -> str:
    return blake2b(text.encode() if isinstance(text, str) else text, digest_size=6).hexdigest()


def to_numbers(lengths: object, kinds: str, called: str) -> NDArray[Any]:
    """Return at least one length, in one dimension, of some NumPy kinds; without a copy if they are an array."""
    refuse_masked("lengths", lengths)
    try:
        found = np.asanyarray(lengths)
    except ValueError as error:
        refuse(TypeError, "lengths", called, lengths, f"NumPy says: {error}.")
    if found.ndim != 1 or not found.size:
        refuse(ValueError, "lengths", "at least one number, in one dimension", lengths)
    if found.dtype.kind not in kinds:
        refuse(TypeError, "lengths", called, lengths)
    return found


def random_bits(key: int, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each position, which depend on the key and the position alone."""
    bits = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def random_order(key: int, size: int) -> NDArray[np.int64]:
    """Return the numbers below `size` in a random order, each order being equally likely."""
    bits = random_bits(key, np.arange(size, dtype=np.int64))
    return np.argsort(bits, kind="stable").astype(np.int64, copy=False)


Result = TypeVar("Result")


class Recent(Generic[Result]):
    """Calls a pure function, and keeps its last results. Threads may share one: at worst, two call it for the same."""

    def __init__(self, function: Callable[..., Result], kept: int = 4) -> None:
        self._function = function
        self._kept = kept
        # Replaced as a whole and never changed, so that readers need no lock.
        self._results: dict[Hashable, Result] = {}

    def __call__(self, *arguments: Any) -> Result:
        results = self._results
        if arguments in results:
            return results[arguments]
        result = self._function(*arguments)
        newest = list(results.items())[-self._kept + 1 :] if self._kept > 1 else []
        self._results = {**dict(newest), arguments: result}
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_results": {}}


@runtime_checkable
class EpochOrder(Protocol):
    """An order of items that can be entered anywhere, since it remembers nothing.

    Give one to `EpochSampler`, which shares it among ranks and can be cut and resumed. The package's own are
    `SequentialOrder`, `ShuffledOrder`, `BlockShuffledOrder`, `WeightedOrder`, `BucketedOrder`, `MixedOrder` and
    `PackedOrder`.

    An order whose positions are batches of varying size has two more: ``makes_batches``, which is True, and
    ``batch(number, epoch)``, which returns the indices of the items of a batch that `take` has named.

    Example:
        >>> import numpy as np
        >>> from spdl.source import EpochOrder, EpochSampler
        >>> class Backwards:
        ...     fingerprint = "backwards(n=4)"
        ...
        ...     def __len__(self) -> int:
        ...         return 4
        ...
        ...     def take(self, epoch, positions):
        ...         return 3 - positions
        >>> isinstance(Backwards(), EpochOrder), list(EpochSampler(Backwards(), rank=0, world_size=1))
        (True, [3, 2, 1, 0])
    """

    @property
    def fingerprint(self) -> str:
        """A short text that two orders share only if they are the same order of the same number of items."""

    def __len__(self) -> int:
        """Return the number of positions of an epoch, the same in every epoch."""

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions, a pure function that several threads may call at once.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of one dimension, with numbers from 0 to ``len(self) - 1``.

        Raises:
            Exception: Any; the sampler's iterator passes it on.
        """


class Order:
    """The base of most orders of this package: they set a kind, and what names them, such as their size and seed."""

    _kind: ClassVar[str]
    _name: str
    _size: int
    """The number of positions of an epoch."""

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        return f"{self._kind}({self._name})"

    def __len__(self) -> int:
        """Return the number of positions of an epoch, the same in every epoch."""
        return self._size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others.
        """
        raise NotImplementedError


def makes_batches(order: EpochOrder) -> bool:
    return getattr(order, "makes_batches", False) is True


def refuse_batches(argument: str, order: EpochOrder) -> None:
    if makes_batches(order):
        remedy = "Let `EpochSampler(order).batch_sampler` yield its batches."
        refuse(ValueError, argument, "an order of items, not one that makes batches", order, remedy)


LARGEST = 2**48
"""How many items or draws an order has at most."""
# Up to here the order is a table, made by sorting random numbers: all orders are then equally likely.
_LARGEST_TABLE = 4096
_ROUNDS = 6
_MASK = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# The working arrays of this size stay in a core's own cache: 320 kB in all.
_CHUNK = 8192


class KeyedPermutation:
    """The numbers from 0 to ``n - 1`` in a random order that takes no memory.

    The number at any position is computed from the seed, the epoch and the position alone, in about the time that
    reading it from a shuffled array would take. So the order of a billion items costs no start-up time, can be
    entered anywhere, and is the same in every process that knows the two numbers. It is the same on every machine.

    Up to 4,096 numbers, every order is equally likely. Above, the order comes from a mixed-radix Feistel network of six
    rounds, walked until it yields a number below `n` (J. Black and P. Rogaway, 2002): none of our statistical tests
    tells it from a random order, but who knows some of it could compute the rest, so keep no secrets by it.

    Args:
        n: How many numbers, from 1 to 2**48.
        seed: The run. Any int.
        epoch: The pass over the data. Any int. ``(1, 0)`` and ``(0, 1)`` are orders that have nothing in common.

    Raises:
        TypeError: If an argument is not an int.
        ValueError: If `n` is out of range.

    Example:
        >>> from spdl.source import KeyedPermutation
        >>> order = KeyedPermutation(10**9, seed=1, epoch=0)
        >>> order[0], order[999_999_999]
        (462446534, 961261698)
        >>> sorted(KeyedPermutation(5, seed=1)) == [0, 1, 2, 3, 4]
        True
    """

    def __init__(self, n: int, /, *, seed: int = 0, epoch: int = 0) -> None:
        self._size = check_int("n", n, least=1, most=LARGEST)
        seed, epoch = check_int("seed", seed, least=None), check_int("epoch", epoch, least=None)
        # The keys of items have no negative index.
        self._keys = tuple(random_key(seed, epoch, -1 - number) for number in range(_ROUNDS))
        # The numbers stand in a table of two sides. An even side makes odd and even permutations equally likely.
        side = isqrt(n - 1) + 1
        self._sides = (side + side % 2, -(-n // (side + side % 2)))
        self._table = random_order(self._keys[0], n) if n <= _LARGEST_TABLE else None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> NDArray[np.int64]: ...
    def __getitem__(self, position: int | slice) -> int | NDArray[np.int64]:
        """Return the number at a position, or an array of the numbers of a slice.

        Raises:
            IndexError: If the position is out of range.
            TypeError: If it is neither an int nor a slice.
        """
        if isinstance(position, slice):
            return self.take(np.arange(*position.indices(self._size), dtype=np.int64))
        where = check_int("position", position, least=None)
        if not -self._size <= where < self._size:
            raise IndexError(f"position {where} is out of range for {self._size} numbers")
        where %= self._size
        if self._table is not None:
            return int(self._table[where])
        number = self._encrypt(where)
        while number >= self._size:
            number = self._encrypt(number)
        return number

    def __iter__(self) -> Iterator[int]:
        for start, stop in ranges_of_chunks(self._size):
            yield from self.take(np.arange(start, stop, dtype=np.int64)).tolist()

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers at many positions at once.

        Args:
            positions: An array of integers from 0 to ``n - 1``, of any shape.

        Returns:
            A new array of the same shape.

        Raises:
            IndexError: If a position is out of range.
            TypeError: If they are not integers.
        """
        wanted = np.asarray(positions)
        if wanted.dtype.kind not in "iu" and wanted.size:
            refuse(TypeError, "positions", "an array of integers", positions)
        check_positions(wanted, self._size)
        if self._table is not None:
            return self._table[wanted.astype(np.intp, copy=False)]
        # Assignments convert; the numbers are below 2**48, so they are the same in both types.
        flat = wanted.reshape(-1).astype(np.uint64)
        for start in range(0, flat.size, _CHUNK):
            self._encrypt_in_place(flat[start : start + _CHUNK])
        return flat.view(np.int64).reshape(wanted.shape)

    def __repr__(self) -> str:
        return f"KeyedPermutation of {self._size} numbers"

    def _encrypt(self, number: int) -> int:
        high_side, low_side = self._sides
        high, low = divmod(number, low_side)
        for turn, key in enumerate(self._keys):
            if turn % 2:
                low = (low + _scramble(high + key, low_side)) % low_side
            else:
                high = (high + _scramble(low + key, high_side)) % high_side
        return high * low_side + low

    def _encrypt_in_place(self, numbers: NDArray[np.uint64]) -> None:
        low_side = np.uint64(self._sides[1])
        high = numbers // low_side
        low = numbers - high * low_side
        work = np.empty((2, numbers.size), dtype=np.uint64)
        for turn, key in enumerate(self._keys):
            if turn % 2:
                _add_scrambled(high, low, key, self._sides[1], work)
            else:
                _add_scrambled(low, high, key, self._sides[0], work)
        np.multiply(high, low_side, out=high)
        np.add(high, low, out=numbers)
        if (beyond := np.flatnonzero(numbers >= np.uint64(self._size))).size:
            again = numbers[beyond]
            self._encrypt_in_place(again)
            numbers[beyond] = again


def ranges_of_chunks(size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield ranges that cover ``range(start, size)``: short ones first, so that the first item comes at once."""
    length = 32
    while start < size:
        stop = min(start + length, size)
        yield start, stop
        start = stop
        length = min(2 * length, _CHUNK)


def _scramble(bits: int, side: int) -> int:
    """Return a random number below `side`, from the upper 40 bits of a splitmix64 that leaves out its last shift."""
    bits &= _MASK
    bits = (bits ^ bits >> 30) * _FIRST & _MASK
    bits = (bits ^ bits >> 27) * _SECOND & _MASK
    return (bits >> 24) * side >> 40


def _add_scrambled(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    key: int,
    side: int,
    rows: NDArray[np.uint64],
) -> None:
    """In place. The rows are overwritten."""
    work, spare = rows
    np.add(source, np.uint64(key), out=work)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(work, np.uint64(shift), out=spare)
        np.bitwise_xor(work, spare, out=work)
        np.multiply(work, np.uint64(factor), out=work)
    np.right_shift(work, np.uint64(24), out=work)
    np.multiply(work, np.uint64(side), out=work)
    np.right_shift(work, np.uint64(40), out=work)
    np.add(target, work, out=target)
    # Below `side` the difference wraps around and is the larger one.
    np.subtract(target, np.uint64(side), out=work)
    np.minimum(target, work, out=target)


class SequentialOrder(Order):
    """The items from 0 to ``n - 1``, the same in every epoch.

    Args:
        n: How many, from 1 to 2**48.

    Raises:
        TypeError, ValueError: If `n` is no such int.

    Example:
        >>> from spdl.source import EpochSampler, SequentialOrder
        >>> list(EpochSampler(SequentialOrder(3), rank=0, world_size=1))
        [0, 1, 2]
    """

    _kind = "sequential"

    def __init__(self, n: int, /) -> None:
        self._size = check_int("n", n, least=1, most=LARGEST)
        self._name = f"n={self._size}"

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:  # noqa: ARG002 - of the protocol.
        """Return the positions themselves.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``n - 1``, which is not copied.

        Raises:
            IndexError: If they are others.
        """
        check_positions(positions, self._size)
        return positions


class ShuffledOrder(Order):
    """The items from 0 to ``n - 1`` in another random order each epoch, by `KeyedPermutation`.

    Args:
        n: How many, from 1 to 2**48.
        seed: The run. Any int.

    Raises:
        TypeError, ValueError: If an argument is no such int.

    Example:
        >>> from spdl.source import EpochSampler, ShuffledOrder
        >>> sampler = EpochSampler(ShuffledOrder(100, seed=1), rank=0, world_size=1)
        >>> list(sampler) == list(sampler)
        False
    """

    _kind = "shuffled"

    def __init__(self, n: int, /, *, seed: int = 0) -> None:
        self._size = check_int("n", n, least=1, most=LARGEST)
        self.seed = check_int("seed", seed, least=None)
        self._name = f"n={self._size}, seed={self.seed}"
        self._shuffled = Recent(self._shuffle, kept=1)

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        return self._shuffled(epoch).take(positions)

    def _shuffle(self, epoch: int) -> KeyedPermutation:
        return KeyedPermutation(self._size, seed=self.seed, epoch=epoch)
