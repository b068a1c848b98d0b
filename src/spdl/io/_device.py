"""Where pixels can live."""


def refuse_device(device_config: object) -> None:
    """Raise RuntimeError unless the CPU is asked for."""
    if device_config is not None:
        msg = (
            f"`device_config` must be None, got {type(device_config).__name__}: this build decodes on the CPU only. "
            "Load on the CPU and transfer the array, for example with `to_torch(buffer).to(device)`"
        )
        raise RuntimeError(msg)
