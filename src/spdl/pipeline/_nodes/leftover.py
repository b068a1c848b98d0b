"""What an aggregator says it has left over, as JSON holds it."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from typing import Any, NoReturn

from spdl._check import show

__all__ = ["pack", "unpack"]

# In the place of an array: its kind, the type of its elements, its shape and its bytes.
_ARRAY = "spdl.array"

_ACCEPTED = (
    "JSON, or has arrays of numpy or tensors in it: dicts with keys of type str, lists, tuples, texts, numbers, bools "
    "and None"
)


def pack(value: Any) -> Any:
    """Return a copy of what an aggregator's ``state_dict()`` has returned that JSON can hold.

    Raises:
        TypeError: If something in it is neither JSON nor an array.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        # A copy of the base type: subclasses may be anything.
        return value
    if isinstance(value, dict) and _ARRAY not in value and all(type(key) is str for key in value):
        return {key: pack(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(part) for part in value]
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        array = value.detach().cpu().contiguous()
        content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
        return _packed("tensor", str(array.dtype).removeprefix("torch."), list(array.shape), content)
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.hasobject or value.dtype.names:
            _refuse(value)
        kind = "array" if isinstance(value, numpy.ndarray) else "number"
        return _packed(kind, value.dtype.str, list(value.shape), value.tobytes())
    return _refuse(value)


def _packed(kind: str, dtype: str, shape: list[int], content: bytes) -> dict[str, Any]:
    return {_ARRAY: [kind, dtype, shape, b64encode(content).decode()]}


def _refuse(value: Any) -> NoReturn:
    raise TypeError(
        f"The aggregator's `state_dict()` must return what is {_ACCEPTED}, got {show(value)} of type "
        f"{type(value).__name__}."
    )


def unpack(packed: Any) -> Any:
    """Return what `pack` was given, with lists in the place of tuples."""
    if isinstance(packed, list):
        return [unpack(part) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if _ARRAY not in packed:
        return {key: unpack(part) for key, part in packed.items()}
    kind, dtype, shape, text = packed[_ARRAY]
    # One that can be written to.
    content = bytearray(b64decode(text))
    if kind == "tensor":
        import torch  # noqa: PLC0415 - only for those who had tensors.

        element = getattr(torch, dtype)
        return torch.frombuffer(content, dtype=element).reshape(shape) if content else torch.empty(shape, dtype=element)
    import numpy as np  # noqa: PLC0415 - as above.

    array = np.frombuffer(content, np.dtype(dtype)).reshape(shape)
    return array[()] if kind == "number" else array
