"""The parts of CUDA that exist and are usable on this machine, and why the others are not."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from importlib.util import find_spec

from spdl.io._common.native import native


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
        """Return what to print."""
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
