"""The device that an argument `device` names."""

from __future__ import annotations

import re
from typing import Any

from spdl._check import refuse
from spdl.io._device.cuda_config import CUDAConfig, cuda_config
from spdl.io._device.default_device import default_config

_ACCEPTED = "None, 'cpu', 'cuda', 'cuda:' and a number, a torch.device of these, or a CUDAConfig"


def choose_device(device: Any) -> CUDAConfig | None:
    """Return the configuration of a GPU, or None for the CPU.

    ``"cuda"`` is the GPU whose number is in the environment variable ``LOCAL_RANK``, or GPU 0.

    Raises:
        RuntimeError: If there is no GPU.
        TypeError: If it is none of what is accepted.
        ValueError: If there is no such device.
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


__all__ = ["choose_device"]
