"""The number of GPUs."""

from spdl.io._common.native import native


def count_gpus(purpose: str, remedy: str) -> int:
    """Return how many GPUs this process sees. If none, raise a RuntimeError with the cause and a remedy."""
    try:
        return native.cuda_device_count()
    except RuntimeError as error:
        msg = f"{purpose} needs a GPU. {error}. {remedy}"
        raise RuntimeError(msg) from None
