"""What of CUDA is usable on this machine, and why the rest is not."""

from __future__ import annotations

from dataclasses import dataclass

from spdl.io._common.native import native
from spdl.io._device.libraries import search_packages


@dataclass(frozen=True)
class CUDALibrary:
    """One of NVIDIA's libraries, as `cuda_info` found it.

    Attributes:
        usable: Whether it was loaded and has all that is needed of it.
        path: The file, or the name by which the system found it. Empty if it is not usable.
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
    brings, and in ``CUDA_HOME``. Where there are several, the newest that the driver serves is taken.

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


__all__ = ["CUDAInfo", "CUDALibrary", "cuda_info"]
