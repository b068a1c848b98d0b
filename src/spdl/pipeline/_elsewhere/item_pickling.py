"""Pickles items with their buffers kept separate, so that large data is copied only into the shared file.

This module imports neither numpy nor torch at the top: a program that sends an array has imported its library. If
numpy cannot be imported, as in other interpreters, arrays arrive as memoryviews.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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


# Kinds of dtypes that their short name describes in full.
_NAMED_KINDS = "biufc"


def general_reducers(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers: this module's, and then the general ones."""
    return _ReducerTable(general, _reduce_array, tensors=True)


class _ReducerTable(dict[type, Any]):
    def __init__(self, general: Mapping[type, Any], reduce_array: Callable[[Any], Any], *, tensors: bool) -> None:
        super().__init__()
        self._general = general
        self._reduce_array = reduce_array
        self._tensors = tensors
        self[memoryview] = _reduce_to_view

    def __missing__(self, kind: type) -> Any:
        # Compared by name, since neither module may be installed.
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            self[kind] = self._reduce_array
        elif self._tensors and kind.__name__ == "Tensor" and kind.__module__ == "torch":
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
    return _ReducerTable(general, _reduce_array_to_view, tensors=False)


def reducers_from_interpreter(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers that turn memoryviews into numpy arrays."""
    table = general_reducers(general)
    table[memoryview] = _reduce_to_array
    return table


def _reduce_array_to_view(array: Any) -> tuple[Any, ...]:
    dtype = array.dtype
    if dtype.kind not in _NATIVE_KINDS or dtype.char not in _FORMATS:
        raise TypeError(
            f"An array of {dtype} cannot be sent to another interpreter, where it would be a memoryview: elements of "
            "memoryviews are booleans, integers, or floats of at most 64 bits. Send it as one of these, such as "
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
            f"A memoryview with elements of the format {view.format!r} cannot be sent to another process or "
            f"interpreter. Accepted are {', '.join(sorted(_FORMATS))}; `memoryview.cast` converts to these."
        )
    if len(shape) > 1 and not all(shape):
        raise TypeError(
            f"Nothing of the shape {shape} can be sent to another process or interpreter: a memoryview of several "
            "dimensions cannot be empty. Send its shape instead."
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

_PROTOCOL = 5


class ItemPickler:
    """Pickles one item at a time, as multiprocessing does, which can share sockets.

    The pickle is a list of pieces: bytes and strings of 64 KiB or more are separate pieces, which pickle passes on
    without copying them.
    """

    def __init__(self, reducers: Reducers = general_reducers) -> None:
        # The pieces of the pickle, and the buffers that follow them: the content of arrays.
        self.pieces: list[Any] = []
        self.buffers: list[memoryview] = []
        self._file = _Pieces(self.pieces.append)
        self._reducers = reducers(ForkingPickler(self._file).dispatch_table)

    def pickle(self, item: object) -> None:
        """Fill ``pieces`` and ``buffers``. They refer to the item's memory, so use and clear them at once."""
        self.clear()
        # A pickler notes all that it meets. While it forgets that, some of it is gone and still noted: a garbage
        # collector that runs then finds it, and the process crashes. It does not look at a pickler that ends.
        pickler = Pickler(self._file, _PROTOCOL, fix_imports=True, buffer_callback=self._set_apart)
        pickler.dispatch_table = self._reducers
        pickler.dump(item)

    def clear(self) -> None:
        self.pieces.clear()
        self.buffers.clear()

    def _set_apart(self, buffer: PickleBuffer) -> bool:
        """Keep a buffer separate, or return True to have it put into the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # It is not contiguous.
            return True
        if raw.nbytes < _LEAST_APART:
            return True
        self.buffers.append(raw)
        return False


class _Pieces:
    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write
