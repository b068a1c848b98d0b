"""Pickles items with their buffers kept separate, so that large data is copied only into the shared file."""

from __future__ import annotations

from collections import Counter
from multiprocessing.reduction import ForkingPickler
from pickle import Pickler
from typing import TYPE_CHECKING, Any

from .plain_leaves import plain_leaves
from .reducers import reducers as general_reducers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pickle import PickleBuffer
    from typing import TypeAlias

    Reducers: TypeAlias = Callable[[Mapping[type, Any]], dict[type, Any]]

__all__ = ["ItemPickler"]

# A separate buffer costs more than copying less than this into the pickle and out of it.
_LEAST_APART = 2048
# The same for arenas.
_LEAST_IN_ARENA = 4096

_PROTOCOL = 5


class ItemPickler:
    """Pickles one item at a time.

    Args:
        bytes_apart: Whether bytes, bytearrays and memoryviews that are long enough are buffers too, which a
            `LeafUnpickler` restores.
        reducers: Makes the pickler's table of reducers of that of multiprocessing.

    It pickles as multiprocessing does, which can share sockets. The pickle is a list of pieces: bytes and strings of
    64 KiB or more are pieces of their own, which pickle passes on without copying them.
    """

    def __init__(self, *, bytes_apart: bool = False, reducers: Reducers = general_reducers) -> None:
        # The pieces of the pickle, and the buffers that follow them: the content of arrays.
        self.pieces: list[Any] = []
        self.buffers: list[memoryview] = []
        # Buffers that the pickle refers to by their number.
        self._leaves: list[memoryview] = []
        # The places in the item of bytes that are its own, and how often each of them was met.
        self._plain: Counter[int] = Counter()
        self._met: Counter[int] = Counter()
        self._bytes_apart = bytes_apart
        self._least_apart = _LEAST_IN_ARENA if bytes_apart else _LEAST_APART
        self._kind = _leaf_pickler(self._set_leaf_apart) if bytes_apart else Pickler
        self._file = _Pieces(self.pieces.append)
        self._reducers = reducers(ForkingPickler(self._file).dispatch_table)

    def pickle(self, item: object) -> None:
        """Fill ``pieces`` and ``buffers``. They refer to the item's memory, so use and clear them at once."""
        self.clear()
        if self._bytes_apart:
            self._plain = plain_leaves(item)
        self._dump(item)
        if self._leaves:
            # Bytes may stand in the item and, as the same object, in what another object is pickled as. Nothing says
            # which of the places is asked for, so they are bytes in all of them.
            elsewhere = [leaf for leaf, times in self._met.items() if 0 < self._plain[leaf] < times]
            if elsewhere:
                self._pickle_again(item, elsewhere)
            # The first one is the last, so that its place is known before all buffers are.
            self.buffers.extend(reversed(self._leaves))

    def _pickle_again(self, item: object, elsewhere: list[int]) -> None:
        plain = Counter({leaf: times for leaf, times in self._plain.items() if leaf not in elsewhere})
        self.clear()
        self._plain = plain
        self._dump(item)

    def _dump(self, item: object) -> None:
        # A pickler notes all that it meets. While it forgets that, some of it is gone and still noted: a garbage
        # collector that runs then finds it, and the process crashes. It does not look at a pickler that ends.
        pickler = self._kind(self._file, _PROTOCOL, fix_imports=True, buffer_callback=self._set_apart)
        pickler.dispatch_table = self._reducers
        pickler.dump(item)

    def clear(self) -> None:
        """Drop the references to the item."""
        self.pieces.clear()
        self.buffers.clear()
        self._leaves.clear()
        self._plain.clear()
        self._met.clear()

    def _set_apart(self, buffer: PickleBuffer) -> bool:
        """Keep a buffer separate, or return True to have it put into the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # It is not contiguous.
            return True
        if raw.nbytes < self._least_apart:
            return True
        self.buffers.append(raw)
        return False

    def _set_leaf_apart(self, leaf: object) -> tuple[str, int, bool] | None:
        kind = type(leaf)
        if kind is bytes or kind is bytearray or kind is memoryview:
            try:
                view = memoryview(leaf).cast("B")  # type: ignore[arg-type] # It is one of the three.
            except TypeError:  # A memoryview with gaps.
                return None
            if view.nbytes >= self._least_apart:
                self._leaves.append(view)
                self._met[id(leaf)] += 1
                # Inside of what an object is pickled as, its own code wants back what it has given.
                return kind.__name__, len(self._leaves), id(leaf) in self._plain
        return None


class _Pieces:
    """What a pickler needs of a file."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write


def _leaf_pickler(set_apart: Callable[[object], tuple[str, int, bool] | None]) -> type[Pickler]:
    class LeafPickler(Pickler):
        """Asks for each object whether it is a buffer. That takes time, so it is not the rule."""

        def persistent_id(self, obj: object) -> tuple[str, int, bool] | None:
            return set_apart(obj)

    return LeafPickler
