"""Configuration of transfers: the GPU, the stream and the allocator."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spdl._check import check_int, refuse
from spdl.io._common.storage import count_gpus

Allocator = tuple[Callable[[int, int, int], int], Callable[[int], object]]

_PER_THREAD_STREAM = 2
"""CUDA's number for the default stream of the calling thread."""


@dataclass(frozen=True)
class CUDAConfig:
    """The target of transfers, as `cuda_config` checked it.

    Attributes:
        device_index: The GPU's number among those that this process sees, from 0.
        stream: The handle of the CUDA stream to copy on.
        allocator: Functions that allocate and free memory on the GPU; None stands for the library's own.

    Example:
        >>> CUDAConfig(device_index=0, stream=2, allocator=None).device_index
        0
    """

    device_index: int
    stream: int
    allocator: Allocator | None


def cuda_config(device_index: int, stream: int = _PER_THREAD_STREAM, allocator: Allocator | None = None) -> CUDAConfig:
    """Configure the GPU, the stream and the allocator of a transfer.

    Args:
        device_index: The GPU's number among those that this process sees, from 0.
        stream: The handle of the CUDA stream to copy on, for example ``torch.cuda.Stream(0).cuda_stream``. It must
            outlive the transfers. The default is the calling thread's default stream, which waits for the work that
            was submitted to the device's default stream before. A separate stream copies beside the training step.
        allocator: A pair of functions that allocate and free memory on the GPU. The first gets the size in bytes, the
            device and the stream, and returns an address; the second gets that address. PyTorch's own cache is
            ``(torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete)``. It reuses memory at once for
            work on the same stream, so copy on the stream that uses the arrays, or hold the arrays until they were
            used. None keeps up to 1 GiB in a pool, which is reused once the default stream is done with it.

    Returns:
        An argument ``device_config`` for `transfer_buffer`, `load_image` and `load_image_batch`.

    Raises:
        RuntimeError: If there is no GPU or no driver; the message says what is missing.
        TypeError: If an argument has the wrong type.
        ValueError: If there is no GPU with this index, or the stream is negative.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> transfer_buffer(load_image(photo), device_config=config)  # doctest: +SKIP
        CUDABuffer(shape=(375, 500, 3), dtype=uint8, device_index=0)
    """
    device_index = check_int("device_index", device_index, least=0)
    stream = check_int("stream", stream, least=0, accepted="a stream's handle, such as `torch_stream.cuda_stream`")
    if allocator is not None and not _is_pair_of_functions(allocator):
        refuse(TypeError, "allocator", "a pair of functions, to allocate and to free, or None", allocator)
    count = count_gpus("cuda_config", "Without one, leave the arrays on the CPU.")
    if device_index >= count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        refuse(
            ValueError,
            "device_index",
            f"less than {count}, the number of GPUs that this process sees",
            device_index,
            f"CUDA_VISIBLE_DEVICES, which selects them, is {visible}.",
        )
    return CUDAConfig(device_index, stream, None if allocator is None else (allocator[0], allocator[1]))


def _is_pair_of_functions(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(callable, value))  # noqa: PLR2004


def local_rank() -> int:
    """Return the number in the environment variable LOCAL_RANK, or 0.

    Raises:
        ValueError: If it is not a whole number.
    """
    rank = os.environ.get("LOCAL_RANK", "0")
    if not (rank.isascii() and rank.isdigit()):
        msg = f"the environment variable LOCAL_RANK must be the number of this process's GPU, from 0, got {rank!r}"
        raise ValueError(msg)
    return int(rank)


def default_config() -> CUDAConfig:
    """Return a configuration for this process's GPU."""
    return cuda_config(local_rank())


_ACCEPTED = "None, 'cpu', 'cuda', 'cuda:' and a number, a torch.device of these, or a CUDAConfig"


def choose_device(device: Any) -> CUDAConfig | None:
    """Return the configuration of a GPU, or None for the CPU.

    ``"cuda"`` is the GPU whose number is in the environment variable ``LOCAL_RANK``, or GPU 0.

    Raises:
        RuntimeError: If there is no GPU.
        TypeError: If it has another type.
        ValueError: If there is no such device.
    """
    if device is None or isinstance(device, CUDAConfig):
        return device
    if not isinstance(device, str) and not (hasattr(device, "type") and hasattr(device, "index")):
        refuse(TypeError, "device", _ACCEPTED, device)
    # PyTorch writes its devices in the same way.
    name = str(device)
    if name == "cpu":
        return None
    if name == "cuda":
        return default_config()
    found = re.fullmatch(r"cuda:(\d{1,4})", name, re.ASCII)
    if found is None:
        refuse(ValueError, "device", _ACCEPTED, device)
    return cuda_config(int(found[1]))
