"""The states of random number generators: noted, put back, and as text."""

from __future__ import annotations

import base64
import random
import struct
import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GlobalStates", "pack_bytes", "pack_generator", "unpack_bytes", "unpack_generator"]


def pack_bytes(data: bytes) -> str:
    """Return bytes as short text."""
    return base64.b85encode(zlib.compress(data)).decode()


def unpack_bytes(text: str) -> bytes:
    """Return the bytes that `pack_bytes` was given.

    Raises:
        ValueError: If the text is damaged.
    """
    try:
        return zlib.decompress(base64.b85decode(text))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def pack_generator(state: Any) -> str:
    """Return the state of a torch generator as text."""
    return pack_bytes(state.numpy().tobytes())


def unpack_generator(text: str) -> Any:
    """Return the state of a torch generator. Raises ValueError if the text is damaged."""
    return torch.frombuffer(bytearray(unpack_bytes(text)), dtype=torch.uint8)


class GlobalStates:
    """The states of the generators that everything in the process shares: torch's, Python's and NumPy's.

    Args:
        torch_state: The state of torch's CPU generator.
        python_state: That of `random`. None leaves it alone.
        numpy_state: That of `numpy.random`. None leaves it alone.
    """

    __slots__ = ("numpy_state", "python_state", "torch_state")

    def __init__(self, torch_state: Any, python_state: Any = None, numpy_state: Any = None) -> None:
        self.torch_state = torch_state
        self.python_state = python_state
        self.numpy_state = numpy_state

    @classmethod
    def note(cls, *, only_torch: bool) -> GlobalStates:
        """Return the present states."""
        if only_torch:
            return cls(torch.get_rng_state())
        numpy = sys.modules.get("numpy")
        return cls(torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state())

    def _put_back(self) -> None:
        torch.set_rng_state(self.torch_state)
        if self.python_state is not None:
            random.setstate(self.python_state)
        if self.numpy_state is not None and (numpy := sys.modules.get("numpy")):
            numpy.random.set_state(self.numpy_state)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Run the block with these states, and put those from outside back afterwards."""
        outside = GlobalStates.note(only_torch=self.python_state is None and self.numpy_state is None)
        self._put_back()
        try:
            yield
        finally:
            outside._put_back()  # noqa: SLF001 - one of its own kind.

    def pack(self) -> dict[str, Any]:
        """Return the states as JSON has them."""
        packed: dict[str, Any] = {"torch": pack_generator(self.torch_state)}
        if self.python_state is not None:
            version, words, gauss = self.python_state
            packed["python"] = [version, pack_bytes(struct.pack(f"<{len(words)}I", *words)), gauss]
        if self.numpy_state is not None:
            name, keys, position, has_gauss, gauss = self.numpy_state
            packed["numpy"] = [name, pack_bytes(keys.astype("<u4").tobytes()), position, has_gauss, float(gauss)]
        return packed

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> GlobalStates:
        """Return the states that `pack` was given. Raises ValueError, TypeError or KeyError for anything else."""
        python_state = numpy_state = None
        if "python" in packed:
            version, text, gauss = packed["python"]
            data = unpack_bytes(text)
            python_state = version, struct.unpack(f"<{len(data) // 4}I", data), gauss
        if "numpy" in packed:
            import numpy as np  # noqa: PLC0415 - only where the state has one.

            name, text, position, has_gauss, gauss = packed["numpy"]
            numpy_state = name, np.frombuffer(unpack_bytes(text), "<u4"), position, has_gauss, gauss
        return cls(unpack_generator(packed["torch"]), python_state, numpy_state)
