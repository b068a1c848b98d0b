"""What of CUDA there is."""

from spdl.io._common.native import native
from spdl.io._device.libraries import search_packages


def built_with_cuda() -> bool:
    """Return whether buffers can be transferred to a GPU here.

    Every build has what this takes. It looks for CUDA's driver when it is asked, so the answer is that of the machine:
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
