"""Transfer of buffers to a GPU and back."""

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

    The copy runs on the configuration's stream, and the call returns when the copy has finished, without waiting for
    other work of the stream. Any stream may then use the array at once, and `buffer` may be dropped or written to. The
    GIL is released until then: in a separate thread, as with the ``transfer_fn`` of `spdl.dataloader.DataLoader`, the
    call runs beside the training step.

    The GPU itself reads the memory of a pinned `cpu_storage`. Other memory goes through a few chunks of pinned memory
    that the process keeps: one is filled while another is copied.

    Args:
        buffer: The result of `convert_frames`, `load_image` or `load_image_batch`.
        device_config: The GPU and stream, from `cuda_config`.
        cuda_config: The older name of `device_config`. Exactly one of the two must be given.

    Returns:
        The array on the GPU, with the buffer's shape and dtype, and its ``failures`` and ``backends``. `to_torch`,
        `to_numba` and `to_jax` view it.

    Raises:
        RuntimeError: If CUDA reports an error. The message has the error's name and the operation that failed.
        TypeError: If an argument has the wrong type, or both configurations or none are given.

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

    The copy runs on the stream that brought the buffer to the GPU, after all work submitted so far to the device's
    default stream. The call returns when the copy has finished, and releases the GIL until then.

    Args:
        buffer: The result of `transfer_buffer`.

    Returns:
        A copy with the same shape and dtype, ``failures`` and ``backends``.

    Raises:
        RuntimeError: If CUDA reports an error. The message has the error's name and the operation that failed.
        TypeError: If `buffer` is not a `CUDABuffer`.

    Example:
        >>> there = transfer_buffer(load_image(photo), device_config=cuda_config(0))  # doctest: +SKIP
        >>> transfer_buffer_cpu(there).shape  # doctest: +SKIP
        (375, 500, 3)
    """
    check_instance("buffer", buffer, native.CUDABuffer, "a CUDABuffer, as `transfer_buffer` returns")
    return native.transfer_to_host(buffer)


def check_device_config(device_config: object) -> None:
    """Raise TypeError unless it is None or a `CUDAConfig`. Called before anything is loaded."""
    if device_config is not None:
        check_instance("device_config", device_config, CUDAConfig, _CONFIG)
