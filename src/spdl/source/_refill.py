"""Other items in the place of failed ones."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from spdl._check import check_int, positive, refuse
from spdl._random_key import random_key
from spdl._sealed import check_state, sealed
from spdl.source._orders.order import KeyedPermutation

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_KIND = "Refill"
# As many are kept and written into the state.
_KEPT = 256


def replacements(n: int, index: int, *, seed: int = 0, epoch: int = 0) -> Iterator[int]:
    """Return the indices of the items to try in the place of one that cannot be loaded.

    They are all other items in a separate random order, which depends on the four arguments alone. So all threads,
    ranks and runs put the same item in the same place.

    Args:
        n: The number of items.
        index: The item that failed.
        seed: The run. Any int.
        epoch: The pass over the data. Any int.

    Returns:
        An iterator.

    Raises:
        TypeError: If an argument is not an int.
        ValueError: If `n` is less than 1 or `index` not below it.

    Example:
        >>> from spdl.source import replacements
        >>> sorted(replacements(5, 3))
        [0, 1, 2, 4]
    """
    n, index = positive("n", n), check_int("index", index, least=0)
    if index >= n:
        refuse(ValueError, "index", f"less than the number of items, {n}", index)
    order = KeyedPermutation(n, seed=random_key(seed, epoch, index))
    return (other for other in order if other != index)


class Refilled(NamedTuple):
    """An item that could not be loaded, and the one that took its place.

    Example:
        >>> from spdl.source import Refilled
        >>> Refilled(3, 4, "OSError: corrupt").replacement
        4
    """

    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The item that failed."""
    replacement: int
    """The item that was loaded instead."""
    reason: str
    """The message of its error."""


class Refill(Generic[T]):
    """An op that loads an item, and another one in its place if it fails.

    In distributed training, an item that is dropped makes the batches of its rank end earlier than the others' batches,
    and the others wait forever. With this op around the one that loads, every index yields an item, so all ranks take
    the same number of steps whatever fails where. Which item takes the place of another depends on the seed and the
    index alone (`replacements`). It is one that the epoch yields anyway, so it comes once more than others.

    Replacements are logged, counted, kept in `failures`, and part of `state_dict`.

    Args:
        op: Loads the item of an index, or raises. It is called by several threads at once if the stage has a
            concurrency above 1.
        n: The number of items.
        seed: The run.
        attempts: How many others to try before the error of the item itself is raised.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `n` or `attempts` is less than 1.

    Example:
        >>> from spdl.source import Refill
        >>> def load(index):
        ...     if index == 3:
        ...         raise OSError("corrupt")
        ...     return 10 * index
        >>> op = Refill(load, 5, seed=1)
        >>> op(2), op(3)
        (20, 40)
        >>> op.failures
        [Refilled(index=3, replacement=4, reason='OSError: corrupt')]
    """

    def __init__(self, op: Callable[[int], T], n: int, /, *, seed: int = 0, attempts: int = 32) -> None:
        if not callable(op):
            refuse(TypeError, "op", "a function that loads the item of an index", op)
        self._op = op
        self._size = positive("n", n)
        self._seed = check_int("seed", seed, least=None)
        self._attempts = positive("attempts", attempts)
        self._lock = threading.Lock()
        self._count = 0
        self._failures: deque[Refilled] = deque(maxlen=_KEPT)

    @property
    def count(self) -> int:
        """How many items were replaced."""
        return self._count

    @property
    def failures(self) -> list[Refilled]:
        """The last 256 items that were replaced, with repetitions."""
        with self._lock:
            return list(self._failures)

    def __call__(self, index: int) -> T:
        """Return the item of an index, or another one.

        Args:
            index: The index.

        Raises:
            Exception: That of the item, if no other could be loaded either; a note says so.
        """
        try:
            return self._op(index)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises.
            item, replacement = self._replace(index, error)
            self._note(Refilled(index, replacement, f"{type(error).__name__}: {error}"))
            return item

    def _replace(self, index: int, error: Exception) -> tuple[T, int]:
        tried = 0
        for other in islice(replacements(self._size, index, seed=self._seed), self._attempts):
            try:
                return self._op(other), other
            except Exception:  # noqa: BLE001 - that of the item itself is raised below.
                tried += 1
        error.add_note(
            f"Refill tried {tried} other items in the place of {index}, and all of them failed too."
            if tried
            else "There is no other item to take its place."
        )
        raise error

    def _note(self, refilled: Refilled) -> None:
        with self._lock:
            self._count += 1
            self._failures.append(refilled)
        _LOG.warning("Item %d could not be loaded, so item %d takes its place: %s", *refilled)

    def state_dict(self) -> dict[str, Any]:
        """Return what was replaced, as a dict that JSON can hold. The reasons of the last 256 are left out."""
        with self._lock:
            replaced = [[each.index, each.replacement] for each in self._failures]
            return sealed(_KIND, {"count": self._count, "replaced": replaced})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what an earlier run replaced.

        Args:
            state: What `state_dict` returned.

        Raises:
            TypeError: If it is not a dict.
            ValueError: If it is the state of something else, or damaged.
        """
        check_state("state", state, _KIND)
        replaced = (Refilled(index, other, "in an earlier run") for index, other in state["replaced"])
        with self._lock:
            self._count = state["count"]
            self._failures = deque(replaced, maxlen=_KEPT)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Refill({self._op!r}): {self._count} replaced"
