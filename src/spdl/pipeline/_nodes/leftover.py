"""What an aggregator says it has left over, as JSON holds it."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from typing import Any, NamedTuple, NoReturn

from spdl._check import show

__all__ = ["pack", "unpack"]

# In the place of an array: its kind, the type of its elements, its shape and its bytes.
_ARRAY = "spdl.array"

# Nothing deeper is packed: Python's own functions for JSON stop at some more, and what contains itself has no end.
_DEEPEST = 100
_LONGEST_PATH = 60

_ACCEPTED = (
    "JSON, which may have arrays of numpy and tensors in it: dicts with keys of type str, lists, tuples, texts, "
    "numbers, bools and None"
)


def pack(value: Any, stage: str) -> Any:
    """Return a copy of what an aggregator's ``state_dict()`` has returned that JSON can hold.

    Args:
        value: What it has returned.
        stage: What messages call the stage.

    Raises:
        TypeError: If something in it is neither JSON nor an array, or would come back as something else.
    """
    return _pack(value, _Place(stage, ""), 0)


class _Place(NamedTuple):
    """Where a value is, for messages."""

    stage: str
    path: str

    def part(self, key: object) -> _Place:
        return self._replace(path=f"{self.path}[{show(key)}]")

    def refuse(self, value: Any, remedy: str = "") -> NoReturn:
        raise TypeError(
            f"Stage {self.stage!r}: what the aggregator's `state_dict()` returns must be {_ACCEPTED}. Got "
            f"{show(value)} of type {type(value).__name__} at `state_dict(){self.path}`.{remedy and f' {remedy}'}"
        )

    def refuse_depth(self) -> NoReturn:
        raise TypeError(
            f"Stage {self.stage!r}: what the aggregator's `state_dict()` returns has more than {_DEEPEST} levels, or "
            f"contains itself, at `state_dict(){self.path[:_LONGEST_PATH]}...`. Return it flat, as a list say."
        )


def _pack(value: Any, place: _Place, depth: int) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and type(value).__module__ != "numpy"):
        return value
    if depth > _DEEPEST:
        place.refuse_depth()
    if isinstance(value, dict) and _ARRAY not in value and all(type(key) is str for key in value):
        return {key: _pack(part, place.part(key), depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(part, place.part(number), depth + 1) for number, part in enumerate(value)]
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _pack_tensor(value, torch, place)
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _pack_array(value, numpy, place)
    return place.refuse(value)


def _pack_tensor(value: Any, torch: Any, place: _Place) -> dict[str, Any]:
    dense = value.layout is torch.strided and not (value.is_nested or value.is_quantized or value.is_meta)
    if type(value) is not torch.Tensor or not dense or value.requires_grad:
        place.refuse(value, "Only plain tensors come back as they are: dense, with data, and detached from any graph.")
    array = value.resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
    return _packed("tensor", str(array.dtype).removeprefix("torch."), list(array.shape), content)


def _pack_array(value: Any, numpy: Any, place: _Place) -> dict[str, Any]:
    if value.dtype.hasobject or value.dtype.names:
        place.refuse(value, "Its elements must be numbers, bools, texts or times.")
    if isinstance(value, numpy.generic):
        return _packed("number", value.dtype.str, [], value.tobytes())
    if type(value) is not numpy.ndarray:
        place.refuse(value, "It would come back as a plain array: return what it holds as plain arrays.")
    return _packed("array", value.dtype.str, list(value.shape), value.tobytes())


def _packed(kind: str, dtype: str, shape: list[int], content: bytes) -> dict[str, Any]:
    return {_ARRAY: [kind, dtype, shape, b64encode(content).decode()]}


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
