"""Where pixels can live."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.io._lazy import native


def refuse_device(device_config: object) -> None:
    """Raise RuntimeError unless the CPU is asked for."""
    if device_config is not None:
        msg = (
            f"`device_config` must be None, got {type(device_config).__name__}: this build decodes on the CPU only. "
            "Load on the CPU and transfer the array: `transfer_buffer(buffer, cuda_config=device_config)`"
        )
        raise RuntimeError(msg)


def count_gpus(purpose: str, remedy: str) -> int:
    """Return how many GPUs this process sees, or raise RuntimeError that says what is missing, and what to do."""
    try:
        return native.cuda_device_count()
    except RuntimeError as error:
        msg = f"{purpose} needs a GPU. {error}. {remedy}"
        raise RuntimeError(msg) from None
