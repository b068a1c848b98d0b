"""CUDA on this machine: the parts that are usable, and the configuration of transfers."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from spdl._check import check_instance, check_int, refuse
from spdl._files import cache_folder
from spdl.io._common.native import native
from spdl.io._common.storage import count_gpus


@functools.cache
def search_packages() -> None:
    """Tell native code the places of NVIDIA's libraries in this Python's packages and CUDA's toolkit.

    Called before anything that needs a library which does not come with the driver. PyTorch brings NVRTC in a package
    of NVIDIA's, and torchvision brings nvJPEG inside its own.
    """
    inside = [f"{folder}.libs" for folder in _folders("torchvision")]
    native.cuda_search([*_folders("nvidia"), *inside, os.environ.get("CUDA_HOME", "/usr/local/cuda")])


def _folders(package: str) -> list[str]:
    """Return the folders of a package, without importing it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # Something else of that name.
        return []
    return [] if spec is None else list(spec.submodule_search_locations or ())


def built_with_cuda() -> bool:
    """Return whether buffers can be transferred to a GPU here.

    Every build has what this takes. It looks for CUDA's driver when it is called, so the answer describes the machine:
    True if there is a driver, and the process sees a GPU. It never raises.

    Example:
        >>> built_with_cuda() in (False, True)
        True
    """
    try:
        return native.cuda_device_count() > 0
    except (ImportError, RuntimeError):
        return False


def built_with_nvcodec() -> bool:
    """Return whether videos can be decoded on a GPU here.

    Every build has what this takes. It looks for a GPU and for NVDEC's library, which comes with the driver, when it is
    asked. `cuda_info` says what is missing. It never raises.

    Example:
        >>> built_with_nvcodec() in (False, True)
        True
    """
    return built_with_cuda() and _are_there("nvcuvid")


def built_with_nvjpeg() -> bool:
    """Return whether images can be decoded on a GPU here.

    Every build has what this takes. It looks for a GPU, for nvJPEG and for the compiler of kernels when it is asked.
    `cuda_info` says what is missing. It never raises.

    Example:
        >>> built_with_nvjpeg() in (False, True)
        True
    """
    return built_with_cuda() and _are_there("nvjpeg", "nvrtc")


def _are_there(*libraries: str) -> bool:
    search_packages()
    try:
        for library in libraries:
            native.cuda_library(library)
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class CUDALibrary:
    """One of NVIDIA's libraries, as `cuda_info` found it.

    Attributes:
        usable: Whether it was loaded and has all that is needed of it.
        path: The file, or the name under which the system found it. Empty if it is not usable.
        version: Its version, such as ``"12.4.0"``. For the driver, the newest CUDA that it serves. Empty if the library
            does not say, or is not usable.
        reason: Why it is not usable, and what to do. Empty if it is.

    Example:
        >>> CUDALibrary(usable=True, path="libnvjpeg.so.12", version="12.4.0", reason="").version
        '12.4.0'
    """

    usable: bool
    path: str
    version: str
    reason: str


@dataclass(frozen=True)
class CUDAInfo:
    """What `cuda_info` found. As text it is a line for each library.

    Attributes:
        devices: The names of the GPUs that this process sees, by their numbers.
        driver: CUDA's driver. Without it nothing else is usable.
        nvjpeg: The decoder of JPEG.
        nvrtc: The compiler of the kernels that resize and convert.
        nvcuvid: The decoder of video.

    Example:
        >>> cuda_info().driver.usable in (False, True)
        True
    """

    devices: tuple[str, ...]
    driver: CUDALibrary
    nvjpeg: CUDALibrary
    nvrtc: CUDALibrary
    nvcuvid: CUDALibrary

    def __str__(self) -> str:
        lines = [f"GPU {number}: {name}" for number, name in enumerate(self.devices)] or ["no GPU"]
        for name in ("driver", "nvjpeg", "nvrtc", "nvcuvid"):
            library: CUDALibrary = getattr(self, name)
            found = f"{library.version or 'usable'} ({library.path})"
            lines.append(f"{name}: {found if library.usable else library.reason}")
        return "\n".join(lines)


def cuda_info() -> CUDAInfo:
    """Find out what of CUDA is usable here, and why the rest is not. It never raises, and uses no GPU.

    Libraries are looked for where the system has them, then in the ``nvidia-*`` packages of this Python, which PyTorch
    brings, and in ``CUDA_HOME``. If there are several, the newest that the driver serves is taken.

    Returns:
        The GPUs, and the state of the libraries. Print it to read it.

    Example:
        >>> for line in str(cuda_info()).splitlines():  # doctest: +SKIP
        ...     print(line)
        GPU 0: NVIDIA H100 80GB HBM3
        driver: 12.8 (libcuda.so.1)
        nvjpeg: 12.4.0 (/usr/lib/python3/site-packages/nvidia/nvjpeg/lib/libnvjpeg.so.12)
        nvrtc: 12.9 (/usr/lib/python3/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12)
        nvcuvid: usable (libnvcuvid.so.1)
    """
    try:
        devices = tuple(native.cuda_device_names())
        search_packages()
    except (ImportError, RuntimeError):
        devices = ()
    return CUDAInfo(devices, *map(_look_at, ("driver", "nvjpeg", "nvrtc", "nvcuvid")))


def _look_at(name: str) -> CUDALibrary:
    try:
        path, version = native.cuda_library(name)
    except (ImportError, RuntimeError) as error:
        return CUDALibrary(usable=False, path="", version="", reason=str(error))
    return CUDALibrary(usable=True, path=path, version=version, reason="")


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
    given: Any = allocator
    is_pair = isinstance(given, tuple | list) and len(given) == 2 and all(map(callable, given))  # noqa: PLR2004
    if not (allocator is None or is_pair):
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


def check_config(config: object, argument: str = "device_config") -> CUDAConfig:
    check_instance(argument, config, CUDAConfig, "a CUDAConfig, as `spdl.io.cuda_config` returns")
    assert isinstance(config, CUDAConfig)
    return config


def kernel_folder() -> str:
    """Return the folder that keeps compiled kernels."""
    return str(cache_folder() / "kernels")


def local_rank() -> int:
    """Return the number in the environment variable LOCAL_RANK, or 0."""
    rank = os.environ.get("LOCAL_RANK", "0")
    if not (rank.isascii() and rank.isdigit()):
        msg = f"the environment variable LOCAL_RANK must be the number of this process's GPU, from 0, got {rank!r}"
        raise ValueError(msg)
    return int(rank)


def default_config() -> CUDAConfig:
    return cuda_config(local_rank())


_ACCEPTED = "None, 'cpu', 'cuda', 'cuda:' and a number, a torch.device of these, or a CUDAConfig"


def choose_device(device: Any) -> CUDAConfig | None:
    """Return the configuration of a GPU, or None for the CPU.

    ``"cuda"`` is the GPU whose number is in the environment variable ``LOCAL_RANK``, or GPU 0.

    Raises:
        RuntimeError: If there is no GPU.
        TypeError, ValueError: If it has another type, or there is no such device.
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
