"""Buffers to a GPU and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_instance, refuse
from spdl.io._common.native import native
from spdl.io._device.cuda_config import CUDAConfig

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer, CUDABuffer

_CONFIG = "a CUDAConfig, as `spdl.io.cuda_config` returns"


def transfer_buffer(
    buffer: CPUBuffer, *, device_config: CUDAConfig | None = None, cuda_config: CUDAConfig | None = None
) -> CUDABuffer:
    """Copy a buffer to a GPU.

    The copy runs on the configuration's stream, and the call returns when it has finished, so that any stream may use
    the array at once, and `buffer` may be dropped or written to. What else the stream has to do is not waited for.
    The GIL is released meanwhile: call this in a thread of its own, as `spdl.dataloader.DataLoader` does with its
    ``transfer_fn``, and it runs beside the training step.

    Memory of a `cpu_storage` that is pinned is read by the GPU itself. Any other goes through a few chunks of pinned
    memory that the process keeps, one being filled while another is copied.

    Args:
        buffer: What `convert_frames`, `load_image` or `load_image_batch` returned.
        device_config: Which GPU and stream, from `cuda_config`.
        cuda_config: The same by its older name. One of the two must be given.

    Returns:
        The array on the GPU, with the buffer's shape and dtype, and its ``failures`` and ``backends``. `to_torch`,
        `to_numba` and `to_jax` view it.

    Raises:
        RuntimeError: If CUDA reports an error: the message has its name and what was being done.
        TypeError: If an argument is of another type, or both configurations or none are given.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> batch = load_image_batch([photo] * 32, width=224, height=224)
        >>> to_torch(transfer_buffer(batch, device_config=config)).device  # doctest: +SKIP
        device(type='cuda', index=0)
    """
    check_instance("buffer", buffer, native.CPUBuffer, "a CPUBuffer, as `convert_frames` returns")
    if device_config is not None and cuda_config is not None:
        refuse(TypeError, "cuda_config", "None with `device_config`, which means the same", cuda_config)
    old = device_config is None and cuda_config is not None
    name, config = ("cuda_config", cuda_config) if old else ("device_config", device_config)
    check_instance(name, config, CUDAConfig, _CONFIG)
    assert config is not None
    return native.transfer_to_device(buffer, config.device_index, config.stream, config.allocator)


def transfer_buffer_cpu(buffer: CUDABuffer) -> CPUBuffer:
    """Copy a buffer on a GPU to main memory.

    The copy runs on the stream that brought the buffer there, after what the device's default stream was given until
    now. The call returns when it has finished, and releases the GIL meanwhile.

    Args:
        buffer: What `transfer_buffer` returned.

    Returns:
        A copy with the same shape and dtype, ``failures`` and ``backends``.

    Raises:
        RuntimeError: If CUDA reports an error: the message has its name and what was being done.
        TypeError: If `buffer` is no `CUDABuffer`.

    Example:
        >>> there = transfer_buffer(load_image(photo), device_config=cuda_config(0))  # doctest: +SKIP
        >>> transfer_buffer_cpu(there).shape  # doctest: +SKIP
        (375, 500, 3)
    """
    check_instance("buffer", buffer, native.CUDABuffer, "a CUDABuffer, as `transfer_buffer` returns")
    return native.transfer_to_host(buffer)


def check_device_config(device_config: object) -> None:
    """Raise TypeError unless it is None or of `cuda_config`: before anything is loaded that is to go there."""
    if device_config is not None:
        check_instance("device_config", device_config, CUDAConfig, _CONFIG)
