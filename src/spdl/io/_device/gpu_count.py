"""Whether there is a GPU."""

from spdl.io._common.native import native


def count_gpus(purpose: str, remedy: str) -> int:
    """Return how many GPUs this process sees, or raise RuntimeError that says what is missing, and what to do."""
    try:
        return native.cuda_device_count()
    except RuntimeError as error:
        msg = f"{purpose} needs a GPU. {error}. {remedy}"
        raise RuntimeError(msg) from None
