"""The GPU of a process that was not told which one to use."""

from __future__ import annotations

import os

from spdl.io._device.cuda_config import CUDAConfig, cuda_config


def local_rank() -> int:
    """Return the number in the environment variable LOCAL_RANK, or 0.

    Raises:
        ValueError: If it is no whole number.
    """
    rank = os.environ.get("LOCAL_RANK", "0")
    if not (rank.isascii() and rank.isdigit()):
        msg = f"the environment variable LOCAL_RANK must be the number of this process's GPU, from 0, got {rank!r}"
        raise ValueError(msg)
    return int(rank)


def default_config() -> CUDAConfig:
    """Return a configuration for this process's GPU."""
    return cuda_config(local_rank())


__all__ = ["default_config", "local_rank"]
