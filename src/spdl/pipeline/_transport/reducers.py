"""Pickles arrays and tensors whose own pickling copies their memory or takes long.

This module imports neither numpy nor torch at the top: a program that sends an array has imported its library.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["reducers"]

# Kinds of dtypes that their short name describes in full.
_NAMED_KINDS = "biufc"


def reducers(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers, in which those of this module precede the general ones."""
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
