"""Transfers between main memory and GPUs: of buffers, and of the tensors in any object."""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_instance, check_int, refuse
from spdl._not_here import require
from spdl.io._common.native import native
from spdl.io._device.cuda import CUDAConfig, check_config, local_rank

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from spdl.io._native import CPUBuffer, CUDABuffer


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
    config = check_config(config, name)
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
        check_config(device_config)


T = TypeVar("T")


_ADVICE = "without one, use the batch unchanged"


class _ThreadState(threading.local):
    """The state of a thread that transfers: a stream for each device, and its last batches."""

    def __init__(self) -> None:
        self.streams: dict[Any, Any] = {}
        self.sent: deque[Any] = deque()


_state = _ThreadState()


def transfer_tensor_h2d(batch: T, /, *, num_caches: int = 4, device: torch.device | int | str | None = None) -> T:
    """Copy the tensors of a batch to this process's GPU, or to another one.

    The copies run on a stream that belongs to the calling thread, through pinned memory, and the call returns when they
    have finished. Any stream may then use the tensors at once. In a separate thread, as with the ``transfer_fn`` of
    `spdl.dataloader.DataLoader`, the call runs beside the training step.

    Args:
        batch: A tensor, or lists, tuples, named tuples, mappings and dataclasses that hold tensors, in any depth.
        num_caches: How many of the last batches to keep alive in each thread, at least 0. The next batch then does not
            get their memory on the GPU while streams other than the default one still read it.
        device: The GPU, as `torch.device` takes it. None, and ``"cuda"`` without a number, are the GPU whose number is
            in the environment variable ``LOCAL_RANK``, or GPU 0.

    Returns:
        The same structure with the tensors on that GPU. Tensors that are there already, and all other objects, are
        returned unchanged.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If PyTorch finds no GPU, or none with this number.
        TypeError, ValueError: If `num_caches` is not an int of at least 0, or ``LOCAL_RANK`` is not a whole number.

    Example:
        >>> import torch
        >>> batch = {"image": torch.ones(2, 3), "path": ["a", "b"]}  # doctest: +SKIP
        >>> transfer_tensor_h2d(batch)["image"].device  # doctest: +SKIP
        device(type='cuda', index=0)
    """
    num_caches = check_int("num_caches", num_caches, least=0)
    torch = require("torch", "transfer_tensor_h2d")
    if not torch.cuda.is_available():
        cause = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch finds none"
        raise RuntimeError(f"transfer_tensor_h2d needs a GPU, but {cause}; see what `nvidia-smi` lists: {_ADVICE}")
    place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda")
    if place.type != "cuda":
        refuse(ValueError, "device", "a GPU, such as 'cuda:0'", device)
    if place.index is None:
        place = _local_device(torch)
    stream = _own_stream(torch, place)

    def send(tensor: Any) -> Any:
        if tensor.device == place:
            return tensor
        local = tensor if tensor.is_cuda or tensor.is_pinned() else tensor.pin_memory()
        sent = local.to(place, non_blocking=True)
        # The tensor's memory belongs to this stream, but work on the default stream will read it.
        sent.record_stream(torch.cuda.default_stream(place))
        return sent

    with torch.cuda.stream(stream):
        result: T = map_tensors(send, batch, torch.Tensor)
    stream.synchronize()
    _state.sent.append(result)
    while len(_state.sent) > num_caches:
        _state.sent.popleft()
    return result


def transfer_tensor(batch: T, /, *, num_caches: int = 4) -> T:
    """Call `transfer_tensor_h2d` after a FutureWarning: this is its older name.

    Args:
        batch: The tensors; see `transfer_tensor_h2d`.
        num_caches: How many batches to keep alive; see `transfer_tensor_h2d`.

    Returns:
        The result of `transfer_tensor_h2d`.

    Raises:
        Exception: The errors of `transfer_tensor_h2d`.

    Example:
        >>> import torch
        >>> transfer_tensor(torch.ones(2)).device  # doctest: +SKIP
        device(type='cuda', index=0)
    """
    warnings.warn("transfer_tensor is now called transfer_tensor_h2d", FutureWarning, stacklevel=2)
    return transfer_tensor_h2d(batch, num_caches=num_caches)


def transfer_tensor_d2h(
    batch: T,
    /,
    *,
    device: torch.device | int | str | None = None,
    stream: torch.cuda.Stream | None = None,
    producer_event: torch.cuda.Event | None = None,
) -> T:
    """Copy the tensors of a batch from a GPU to main memory.

    The copies run on a separate stream, into pinned memory, after the work that made the tensors. The call returns when
    they have finished.

    Args:
        batch: A tensor, or lists, tuples, named tuples, mappings and dataclasses that hold tensors, in any depth.
        device: The GPU that the tensors are on, as `torch.device` takes it. None is the GPU whose number is in the
            environment variable ``LOCAL_RANK``, or GPU 0.
        stream: The stream of `device` to copy on. None is a stream that belongs to the calling thread.
        producer_event: The event that the copies wait for. None waits for all work submitted so far to the calling
            thread's current stream.

    Returns:
        The same structure with the tensors in main memory. Tensors that are there already are returned unchanged. If
        PyTorch finds no GPU, the batch itself is returned.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If PyTorch finds GPUs, but none with this number.
        ValueError: If a `stream` is given without a `device`, or ``LOCAL_RANK`` is not a whole number.

    Example:
        >>> import torch
        >>> transfer_tensor_d2h({"score": torch.ones(2)})["score"].device
        device(type='cpu')
    """
    torch = require("torch", "transfer_tensor_d2h")
    if stream is not None and device is None:
        refuse(ValueError, "device", "given with a `stream`, which belongs to a device", device)
    if not torch.cuda.is_available():
        return batch
    if device is None:
        place = _local_device(torch)
    else:
        place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    stream = stream or _own_stream(torch, place)
    if producer_event is None:
        stream.wait_stream(torch.cuda.current_stream(place))
    else:
        stream.wait_event(producer_event)

    def fetch(tensor: Any) -> Any:
        if not tensor.is_cuda:
            return tensor
        fetched = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return fetched.copy_(tensor, non_blocking=True)

    with torch.cuda.stream(stream):
        result: T = map_tensors(fetch, batch, torch.Tensor)
    stream.synchronize()
    return result


def _local_device(torch: Any) -> torch.device:
    return torch.device("cuda", local_rank())


def _own_stream(torch: Any, device: torch.device) -> torch.cuda.Stream:
    if device not in _state.streams:
        _state.streams[device] = torch.cuda.Stream(device)
    return _state.streams[device]


def map_tensors(function: Callable[[Any], Any], value: Any, tensor: type) -> Any:
    """Return a value with a function applied to the tensors in it, which are of the type `tensor`."""
    if isinstance(value, tensor):
        return function(value)
    return map_parts(lambda part: map_tensors(function, part, tensor), value)


def map_parts(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a list, a tuple, a mapping or a dataclass with a function applied to its parts; else the value itself."""
    if isinstance(value, list | tuple):
        items = map(function, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        return _map_values(function, value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        result = copy.copy(value)
        for field in dataclasses.fields(value):
            # The constructor may do more than set fields, and a frozen dataclass refuses setattr().
            object.__setattr__(result, field.name, function(getattr(value, field.name)))
        return result
    return value


def _map_values(function: Callable[[Any], Any], mapping: Mapping[Any, Any]) -> Any:
    items = {key: function(item) for key, item in mapping.items()}
    if isinstance(mapping, defaultdict):
        return defaultdict(mapping.default_factory, items)
    try:
        return type(mapping)(items)  # type: ignore[call-arg]
    except TypeError:  # Its constructor takes something else.
        return items
