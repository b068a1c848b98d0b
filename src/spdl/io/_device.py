"""Whether there is a GPU."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.io._lazy import native


def count_gpus(purpose: str, remedy: str) -> int:
    """Return how many GPUs this process sees, or raise RuntimeError that says what is missing, and what to do."""
    try:
        return native.cuda_device_count()
    except RuntimeError as error:
        msg = f"{purpose} needs a GPU. {error}. {remedy}"
        raise RuntimeError(msg) from None
