"""Where pixels can live."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


def refuse_device(device_config: object) -> None:
    """Raise RuntimeError unless the CPU is asked for."""
    if device_config is not None:
        msg = (
            f"`device_config` must be None, got {type(device_config).__name__}: this build decodes on the CPU only. "
            "Load on the CPU and transfer the array, for example with `to_torch(buffer).to(device)`"
        )
        raise RuntimeError(msg)
