"""Reads a loader step by step, and compares what has come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

from spdl._check import positive, refuse, show


def check_numbers(argument: str, value: Any) -> list[int]:
    """Return the numbers of ranks, or the batch sizes. Raises a TypeError or ValueError if they are anything else."""
    accepted = "a sequence of ints of at least 1, each of which is tried, such as (1, 2, 3)"
    if not hasattr(type(value), "__iter__"):
        remedy = f"To try it alone, pass {argument}=[{value!r}]." if isinstance(value, int) and value > 0 else ""
        refuse(TypeError, argument, accepted, value, remedy)
    found = [positive(f"{argument}[{place}]", number) for place, number in enumerate(value)]
    if not found:
        refuse(ValueError, argument, accepted, value)
    return found


def leaves(value: Any) -> Iterator[Hashable]:
    """Yield what a batch holds: the elements of lists and arrays, of lists of lists and so on.

    A dict, a tuple or a dataclass whose fields are lists or arrays of one length is a batch of records. Any other is
    one item, as are strings.
    """
    if type(value) is list:
        for element in value:
            yield from leaves(element)
    elif _is_array(value) and value.ndim:
        for element in value:
            yield freeze(element)
    elif (columns := _columns(value)) is not None:
        yield from zip(*(map(freeze, column) for column in columns), strict=True)
    else:
        yield freeze(value)


def _columns(value: Any) -> list[Any] | None:
    """Return the columns of a batch of records; None for anything else."""
    if isinstance(value, Mapping):
        columns = list(value.values())
    elif is_dataclass(value) and not isinstance(value, type):
        columns = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, tuple):
        # Batches without labels have None in their place.
        columns = [column for column in value if column is not None]
    else:
        return None
    if not columns or not all(type(column) is list or (_is_array(column) and column.ndim) for column in columns):
        return None
    return columns if len({len(column) for column in columns}) == 1 else None


def freeze(value: Any) -> Hashable:  # noqa: PLR0911 - a line for each kind of value.
    """Return a hashable value that equals another one's exactly if the values are the same."""
    if _is_array(value):
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        return str(array.dtype), tuple(array.shape), array.tobytes()
    if isinstance(value, Mapping):
        return "dict", tuple((freeze(key), freeze(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(freeze, value))
    if isinstance(value, set | frozenset):
        return "set", frozenset(map(freeze, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(freeze(getattr(value, field.name)) for field in fields(value))
    try:
        hash(value)
    except TypeError:
        return type(value).__name__, repr(value)
    # 1, 1.0 and True are equal, and a pipeline that confuses them is not exact.
    return value if isinstance(value, str) else (type(value).__name__, value)


def _is_array(value: object) -> bool:
    return all(hasattr(value, name) for name in ("dtype", "shape", "ndim", "__getitem__"))


_SHOWN = 8


def describe_difference(
    place: str, expected: list[Any], found: list[Any], wanted: Counter[Hashable], got: Counter[Hashable]
) -> str:
    """Return what was lost and repeated, and where the sequence begins to differ.

    Without cuts, `expected` came, which has the items that were `wanted`; with them, `found`, which has those that were
    `got`. The place is the epoch, and the step of the cut.
    """
    lost, repeated = wanted - got, got - wanted
    parts = [f"The loader does not resume exactly: {place}."]
    if lost:
        parts.append(f"Lost: {_list(lost)}.")
    if repeated:
        parts.append(f"Repeated: {_list(repeated)}.")
    if not (lost or repeated):
        index = next(
            (at for at, pair in enumerate(zip(expected, found, strict=False)) if freeze(pair[0]) != freeze(pair[1])),
            min(len(expected), len(found)),
        )
        parts.append(
            f"No item is lost or repeated, but the sequence differs from item {index} on: {_at(expected, index)} came "
            f"without a cut, {_at(found, index)} with it. If only the set of items matters, pass `ordered=False`."
        )
    return " ".join(parts)


def _list(items: Counter[Hashable]) -> str:
    each = [show(_thaw(item)) for item in items.elements()]
    more = f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
    return f"{', '.join(each[:_SHOWN])}{more}"


def _thaw(item: Hashable) -> Any:
    # The name of the type does not help the reader.
    return item[1] if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) else item  # noqa: PLR2004


def _at(values: list[Any], index: int) -> str:
    return show(values[index]) if index < len(values) else "nothing"


# The items of each epoch.
Epochs: TypeAlias = list[list[Any]]


class ResumableLoader(Protocol):
    """A loader that can be resumed: a `Pipeline`, a `DataLoader`, or any object with the same three methods."""

    def __iter__(self) -> Iterator[Any]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


Make: TypeAlias = "Callable[[], ResumableLoader]"


class Reader:
    """Reads a loader step by step. The end of an epoch is a step as well."""

    def __init__(self, loader: ResumableLoader, epochs: int, before: int) -> None:
        self.loader = loader
        # The items of each epoch that was begun; and how many epochs have ended, including earlier runs.
        self.got: Epochs = [[]]
        self.ended = before
        self._epochs = epochs
        self._items: Iterator[Any] | None = None

    def step(self) -> bool:
        """Take one item, or see the end of an epoch. Return False if all epochs have ended."""
        if self.ended == self._epochs:
            return False
        if self._items is None:
            self._items = iter(self.loader)
        for item in islice(self._items, 1):
            self.got[-1].append(item)
            return True
        self._items = None
        self.ended += 1
        self.got.append([])
        return True

    def read(self, steps: int | None = None) -> int:
        """Take that many steps, or all. Return how many there were."""
        taken = 0
        while (steps is None or taken < steps) and self.step():
            taken += 1
        return taken

    def state(self) -> dict[str, Any]:
        """Return the loader's state as a checkpoint on disk brings it back."""
        state: dict[str, Any] = json.loads(json.dumps(self.loader.state_dict()))
        return state

    def close(self) -> None:
        close = getattr(self._items, "close", None)
        self._items = None
        if close is not None:
            close()


@contextmanager
def open_reader(make: Make, epochs: int, *, state: Any = None, before: int = 0) -> Iterator[Reader]:
    """Make a loader, load a state if there is one, and read it.

    Of the epochs, so many had ended `before`, in earlier runs.
    """
    loader = make()
    if state is not None:
        loader.load_state_dict(state)
    running: AbstractContextManager[Any] = nullcontext()
    if hasattr(loader, "auto_stop"):
        running = loader.auto_stop()
    with running:
        reader = Reader(loader, epochs, before)
        try:
            yield reader
        finally:
            reader.close()
