"""The states of random number generators: noted, put back, and as text."""

from __future__ import annotations

import base64
import random
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


def _pack_bytes(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data)).decode()


def _unpack_bytes(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def pack_generator(state: Any) -> str:
    return _pack_bytes(state.numpy().tobytes())


def unpack_generator(text: str) -> Any:
    return torch.frombuffer(bytearray(_unpack_bytes(text)), dtype=torch.uint8)


class Moment:
    """The states of the generators that an order may be drawn from, at one moment.

    `generators` are the states of the samplers' own torch generators; the others those of global ones, None for those
    that are left alone.
    """

    __slots__ = ("generators", "numpy_state", "python_state", "torch_state")

    def __init__(
        self, generators: Sequence[Any] = (), torch_state: Any = None, python_state: Any = None, numpy_state: Any = None
    ) -> None:
        self.generators = generators
        self.torch_state = torch_state
        self.python_state = python_state
        self.numpy_state = numpy_state

    @classmethod
    def note(cls, generators: Sequence[Any] = (), *, of_torch: bool = False, of_all: bool = False) -> Moment:
        own = [generator.get_state() for generator in generators]
        if not of_all:
            return cls(own, torch.get_rng_state() if of_torch else None)
        numpy = sys.modules.get("numpy")
        return cls(own, torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state())

    @contextmanager
    def in_force(self, generators: Sequence[Any] = ()) -> Iterator[None]:
        """Run the block with these states. Afterwards the global generators are as before; the others continue."""
        for generator, state in zip(generators, self.generators, strict=True):
            generator.set_state(state)
        outside = Moment.note(of_torch=self.torch_state is not None, of_all=self.python_state is not None)
        self._put_back()
        try:
            yield
        finally:
            outside._put_back()  # noqa: SLF001 - another kind of generator.

    def _put_back(self) -> None:
        if self.torch_state is not None:
            torch.set_rng_state(self.torch_state)
        if self.python_state is not None:
            random.setstate(self.python_state)
        if self.numpy_state is not None and (numpy := sys.modules.get("numpy")):
            numpy.random.set_state(self.numpy_state)

    def pack(self) -> dict[str, Any]:
        packed: dict[str, Any] = {"generators": [pack_generator(state) for state in self.generators]}
        if self.torch_state is not None:
            packed["torch"] = pack_generator(self.torch_state)
        if self.python_state is not None:
            version, words, gauss = self.python_state
            packed["python"] = [version, _pack_bytes(struct.pack(f"<{len(words)}I", *words)), gauss]
        if self.numpy_state is not None:
            name, keys, position, has_gauss, gauss = self.numpy_state
            packed["numpy"] = [name, _pack_bytes(keys.astype("<u4").tobytes()), position, has_gauss, float(gauss)]
        return packed

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Moment:
        python_state = numpy_state = None
        if "python" in packed:
            version, text, gauss = packed["python"]
            data = _unpack_bytes(text)
            python_state = version, struct.unpack(f"<{len(data) // 4}I", data), gauss
        if "numpy" in packed:
            import numpy as np  # noqa: PLC0415 - only where the state has one.

            name, text, *others = packed["numpy"]
            numpy_state = name, np.frombuffer(_unpack_bytes(text), "<u4"), *others
        own = [unpack_generator(state) for state in packed["generators"]]
        return cls(own, unpack_generator(packed["torch"]) if "torch" in packed else None, python_state, numpy_state)
