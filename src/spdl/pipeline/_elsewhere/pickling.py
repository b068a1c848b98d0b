"""Pickles items with their buffers kept separate, so that large data is copied only into the shared file.

This module imports neither numpy nor torch at the top: a program that sends an array has imported its library. If
numpy cannot be imported, as in other interpreters, arrays arrive as memoryviews.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from pickle import PickleBuffer, Pickler
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Reducers: TypeAlias = Callable[[Mapping[type, Any]], dict[type, Any]]

# All immutable: two items that share an object share its copy on the other side, which may change there.
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))


def are_plain(items: Collection[object]) -> bool:
    """Return whether all items are numbers, strings, bytes or None, or tuples of these. Subclasses are not."""
    kinds = set(map(type, items))
    if tuple in kinds:
        kinds.remove(tuple)
        kinds.update(map(type, chain.from_iterable(item for item in items if type(item) is tuple)))
    return kinds <= _PLAIN


_BYTES = (bytes, bytearray, memoryview)


def plain_leaves(item: Any) -> Counter[int]:
    """Count the places of bytes, bytearrays and memoryviews in lists, tuples, dicts and dataclasses, however nested.

    The ids are the keys. Pickling meets each place once, since it remembers the lists and the like that it has met. If
    it meets some bytes more often than that, the same object stands elsewhere, too.

    Other objects give bytes to their pickle and take them back in their own code, which accepts nothing else: an
    array with gaps is one.
    """
    found: Counter[int] = Counter()
    seen: set[int] = set()
    pending = [item]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind in _BYTES:
            found[id(each)] += 1
        elif (parts := _parts(each, kind)) and id(each) not in seen:
            seen.add(id(each))
            pending.extend(parts)
    return found


def _parts(each: Any, kind: type) -> Any:
    if kind is list or kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return each
    if kind is dict:
        return each.values()
    if hasattr(kind, "__dataclass_fields__") and _is_pickled_by_its_fields(kind):
        # A class may have defaults, which are not pickled.
        known = vars(each) if hasattr(each, "__dict__") else None
        return [getattr(each, name, None) for name in kind.__dataclass_fields__ if known is None or name in known]
    return ()


def _is_pickled_by_its_fields(kind: Any) -> bool:
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in own)


# Kinds of dtypes that their short name describes in full.
_NAMED_KINDS = "biufc"


def general_reducers(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers: this module's, and then the general ones."""
    return _Table(general)


class _Table(dict[type, Any]):
    def __init__(self, general: Mapping[type, Any]) -> None:
        super().__init__()
        self._general = general

    def __missing__(self, kind: type) -> Any:
        # Compared by name, since neither module may be installed.
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            self[kind] = _reduce_array
        elif kind.__name__ == "Tensor" and kind.__module__ == "torch":
            self[kind] = _TensorReducer(self._general.get(kind))
        else:
            return self._general[kind]
        return self[kind]


def _reduce_array(array: Any) -> tuple[Any, ...]:
    # The same as numpy does for protocol 5, in an eighth of the time: it calls no Python function and makes no dtype.
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in _NAMED_KINDS or dtype.metadata or not array.size or not flags.forc:
        own: tuple[Any, ...] = array.__reduce_ex__(5)
        return own
    order = "C" if flags.c_contiguous else "F"
    return type(array), (array.shape, dtype.str, PickleBuffer(array), 0, None, order)


class _TensorReducer:
    """Sends the content of a tensor. Torch would send a descriptor of its memory, for which the worker must live."""

    def __init__(self, general: Callable[[Any], tuple[Any, ...]] | None) -> None:
        self._general = general

    def __call__(self, tensor: Any) -> tuple[Any, ...]:
        import numpy as np  # noqa: PLC0415 - only tensors need it.
        import torch  # noqa: PLC0415 - it is loaded, since this is one of its tensors.

        plain = (
            tensor.layout is torch.strided
            and tensor.device.type == "cpu"
            and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        )
        if not (plain and tensor.numel()):
            reduced: tuple[Any, ...] = self._general(tensor) if self._general else tensor.__reduce_ex__(5)
            return reduced
        # Order the dimensions as they lie in memory, so that a channels-last tensor stays one.
        strides = tensor.stride()
        order = sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension])
        lying = tensor.permute(order)
        if not (tensor.dtype.is_complex or tensor.dtype is torch.bool):
            # As integers, because numpy lacks some kinds of floats.
            lying = lying.view(getattr(torch, f"int{8 * tensor.element_size()}"))
        # Numpy copies tensors with gaps: torch would use its threads, which a forked process does not have.
        content: Any = np.ascontiguousarray(lying.numpy())
        return _make_tensor, (PickleBuffer(content), tensor.dtype, tuple(lying.shape), order)


def _make_tensor(content: Any, dtype: Any, shape: tuple[int, ...], order: list[int]) -> Any:
    import torch  # noqa: PLC0415 - only tensors need it.

    inverse = sorted(range(len(order)), key=order.__getitem__)
    return torch.frombuffer(content, dtype=dtype).view(shape).permute(inverse)


# The possible elements of a memoryview: booleans, integers and floats in the machine's byte order.
_FORMATS = frozenset("?bBhHiIlLqQefd")
_NATIVE_KINDS = "biuf"


def reducers_to_interpreter(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers that turn arrays into memoryviews of the same shape and elements."""
    return _Arrays(general)


def reducers_from_interpreter(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers that turn memoryviews into numpy arrays."""
    table = general_reducers(general)
    table[memoryview] = _reduce_to_array
    return table


class _Arrays(dict[type, Any]):
    def __init__(self, general: Mapping[type, Any]) -> None:
        super().__init__()
        self._general = general
        self[memoryview] = _reduce_to_view

    def __missing__(self, kind: type) -> Any:
        # Compared by name, since a program that sends no arrays may not have imported it.
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            self[kind] = _reduce_array_to_view
            return _reduce_array_to_view
        return self._general[kind]


def _reduce_array_to_view(array: Any) -> tuple[Any, ...]:
    dtype = array.dtype
    if dtype.kind not in _NATIVE_KINDS or dtype.char not in _FORMATS:
        raise TypeError(
            f"An array of {dtype} cannot be sent to another interpreter, where it would be a memoryview: the elements "
            "of those are booleans, integers, or floats of at most 64 bits. Send it as one of these, such as "
            "`array.view(float)` for complex numbers, or the fields of a structured array one by one."
        )
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    return _reduce_to_view(memoryview(array))


def _reduce_to_view(view: memoryview) -> tuple[Any, ...]:
    return _make_view, _parts_of_view(view)


def _reduce_to_array(view: memoryview) -> tuple[Any, ...]:
    return _make_array, _parts_of_view(view)


def _parts_of_view(view: memoryview) -> tuple[Any, str, tuple[int, ...]]:
    """Return the content of a memoryview, the format of its elements, and its shape."""
    kind = view.format.removeprefix("@")
    shape = tuple(view.shape or ())
    if kind not in _FORMATS:
        raise TypeError(
            f"A memoryview with elements of the format {view.format!r} cannot be sent between interpreters. Accepted "
            f"are {', '.join(sorted(_FORMATS))}; `memoryview.cast` makes such a one."
        )
    if len(shape) > 1 and not all(shape):
        raise TypeError(
            f"Nothing of the shape {shape} can be sent between interpreters: a memoryview of several dimensions cannot "
            "be empty. Send its shape instead."
        )
    # In order, without the gaps of a part of something.
    content: Any = view if view.c_contiguous else view.tobytes()
    return PickleBuffer(content), kind, shape


def _writable(content: Any) -> memoryview:
    """Return received content as memory that the receiver may change. Short content may come as bytes."""
    view = memoryview(content).cast("B")
    return memoryview(bytearray(view)) if view.readonly else view


def _make_view(content: Any, kind: str, shape: tuple[int, ...]) -> memoryview:
    # Its shape and format are not known to type checkers.
    whole: Any = _writable(content)
    view: memoryview = whole.cast(kind) if len(shape) == 1 else whole.cast(kind, shape)
    return view


def _make_array(content: Any, kind: str, shape: tuple[int, ...]) -> Any:
    import numpy as np  # noqa: PLC0415 - only arrays need it.

    return np.ndarray(shape, kind, _writable(content))


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
        reducers: Makes the pickler's table of reducers from the table of multiprocessing.

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
            # The same bytes object may be in the item and in the pickled form of another object. The pickler does not
            # say which of the two it is writing, so both are written as bytes.
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
    """The file of a pickler."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write


def _leaf_pickler(set_apart: Callable[[object], tuple[str, int, bool] | None]) -> type[Pickler]:
    class LeafPickler(Pickler):
        """Asks for each object whether it is a buffer. That takes time, so it is not the rule."""

        def persistent_id(self, obj: object) -> tuple[str, int, bool] | None:
            return set_apart(obj)

    return LeafPickler


_COPIES = {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}


class LeafUnpickler(pickle.Unpickler):
    """Unpickles one item.

    Args:
        pickled: The pickle.
        buffers: The buffers that go with it.
        views: Whether bytes become views of the buffers rather than what they were, except those that an object is
            pickled as.
    """

    def __init__(self, pickled: memoryview, buffers: Sequence[Any], *, views: bool) -> None:
        super().__init__(io.BytesIO(pickled), buffers=buffers)
        self._buffers = buffers
        self._views = views

    def persistent_load(self, pid: Any) -> Any:
        """Return the bytes of a number: it counts from the end."""
        kind, number, is_plain = pid
        buffer = self._buffers[-number]
        return memoryview(buffer) if self._views and is_plain else _COPIES[kind](buffer)
