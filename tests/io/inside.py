"""What tests see of `spdl.io` that users do not: switches and counters of the native part, and the stores it has kept.

No other test module of `spdl.io` reaches behind the public names for these.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spdl.io._common import inputs
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spdl.io import CPUBuffer

__all__ = [
    "buffer_of",
    "compress_zstd",
    "entropy_decoders",
    "forget_stores",
    "instruction_sets",
    "kernel_source",
    "knows_entropy_decoder",
    "knows_instruction_set",
    "last_entropy_decoder",
    "prepare_gpu_images",
    "scales_by_itself",
    "tried_scalers",
    "use_each_instruction_set_in_turn",
    "using_entropy_decoder",
    "using_instruction_set",
]


def instruction_sets() -> list[str]:
    """Return the names of the instruction sets that this processor has kernels for: the portable one is the last."""
    return native.kernel_names()


def knows_instruction_set(name: str) -> bool:
    """Return whether there are kernels of this name. If so, they are used from now on."""
    return native.select_kernels(name)


@contextmanager
def using_instruction_set(name: str) -> Iterator[None]:
    """Use the kernels of one instruction set, and at the end those that the processor runs fastest."""
    assert native.select_kernels(name)
    try:
        yield
    finally:
        assert native.select_kernels("")


def use_each_instruction_set_in_turn() -> None:
    """Select all kernels, one after the other. The last ones stay selected."""
    for name in native.kernel_names():
        assert native.select_kernels(name)


def entropy_decoders() -> list[str]:
    """Return the names of the decoders of a JPEG's Huffman codes: libjpeg's is the last."""
    return native.entropy_decoder_names()


def knows_entropy_decoder(name: str) -> bool:
    """Return whether there is a decoder of this name. If so, it is used from now on."""
    return native.select_entropy_decoder(name)


@contextmanager
def using_entropy_decoder(name: str) -> Iterator[None]:
    """Use one decoder of Huffman codes, and at the end the first one again."""
    assert native.select_entropy_decoder(name)
    try:
        yield
    finally:
        assert native.select_entropy_decoder("")


def last_entropy_decoder() -> str:
    """Return the name of the decoder that decoded this thread's last JPEG."""
    return native.last_entropy_decoder()


def scales_by_itself() -> bool:
    """Return whether this processor has kernels that scale frames as libswscale does."""
    return native.has_sws_scalers()


def tried_scalers(pix_fmt: str = "rgb24") -> dict[tuple[int, int, int, int], bool]:
    """Return which scalers to a pixel format were made, by the sizes, and whether each gave the same as libswscale."""
    # The one that was used last comes first.
    return {(a, b, c, d): works for a, b, c, d, to, works in reversed(native.sws_scalers()) if to == pix_fmt}


def buffer_of(array: Any) -> CPUBuffer:
    """Return a buffer with a copy of an array of any type and shape. Decoders make only some of them."""
    return native.adopt(array.tobytes(), array.shape, str(array.dtype))


def compress_zstd(data: bytes) -> bytes:
    """Compress data. Python 3.13 and older have no zstd."""
    return native.zstd(b"", data)


def kernel_source() -> str:
    """Return the source of the kernels, as NVRTC gets it."""
    return native.kernel_source()


def prepare_gpu_images(device: int, folder: Path | str) -> None:
    """Load the kernels for a GPU, which are kept in a folder once they are compiled."""
    native.prepare_gpu_images(device, str(folder))


def forget_stores() -> None:
    """Close the stores that URLs have named. They are kept as long as the process, with their connections."""
    while inputs._stores:
        store: Any = inputs._stores.popitem()[1]
        store.close()
