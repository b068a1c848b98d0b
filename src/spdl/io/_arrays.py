"""Buffers as the arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    import numpy as np
    import torch


@runtime_checkable
class ArrayInterface(Protocol):
    """Anything that shows its memory through NumPy's array interface, as `CPUBuffer` does."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


def to_numpy(buffer: ArrayInterface) -> np.ndarray[Any, Any]:
    """View a buffer as a NumPy array.

    Args:
        buffer: What `convert_frames`, `load_image` or `load_image_batch` returned.

    Returns:
        A writable view of the buffer's memory, which it keeps alive. Nothing is copied.

    Raises:
        RuntimeError: If `buffer` has no ``__array_interface__``.

    Example:
        >>> to_numpy(load_image(photo)).dtype
        dtype('uint8')
    """
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    if not hasattr(buffer, "__array_interface__"):
        msg = f"to_numpy needs an object with `__array_interface__`, such as a CPUBuffer, got {type(buffer).__name__}"
        raise RuntimeError(msg)
    return np.asarray(buffer)


def to_torch(buffer: ArrayInterface) -> torch.Tensor:
    """View a buffer as a PyTorch tensor on the CPU.

    Args:
        buffer: What `convert_frames`, `load_image` or `load_image_batch` returned.

    Returns:
        A tensor that shares the buffer's memory and keeps it alive. Nothing is copied; writing to one writes to both.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If `buffer` has no ``__array_interface__``.

    Example:
        >>> to_torch(load_image_batch([photo], width=224, height=224)).permute(0, 3, 1, 2).shape
        torch.Size([1, 3, 224, 224])
    """
    try:
        import torch  # noqa: PLC0415 - an optional dependency.
    except ImportError as error:
        msg = "to_torch needs PyTorch, which is not installed: `pip install torch`"
        raise ImportError(msg) from error

    if hasattr(buffer, "__dlpack__"):
        return torch.from_dlpack(buffer)
    return torch.from_numpy(to_numpy(buffer))
