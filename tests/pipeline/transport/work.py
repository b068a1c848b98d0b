"""What the tests of transport share."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

MB = 1 << 20


def contents() -> list[Any]:
    """Return items with all kinds of content, but for tensors: a process that is not forked imports torch for long."""
    return [
        (bytes(range(256)) * 100, bytearray(b"ab" * 10_000), memoryview(b"xyz" * 5000), b"short", np.arange(9)),
        [np.arange(50_000), {"deep": [b"q" * 4096]}],
    ]


def record(name: str, **figures: Any) -> None:
    """Write what a long run has found, if the environment names a folder for it."""
    folder = os.environ.get("SPDL_RECORDS")
    if folder:
        Path(folder, f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def shared_memories() -> list[int]:
    """Return how many bytes are in each memory without a name that this process has open.

    A mapping has a descriptor of its own, so most of them are there twice.
    """
    sizes = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as the system counts them.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:spdl"):  # noqa: PTH115
                sizes.append(os.stat(f"/proc/self/fd/{name}").st_blocks * 512)  # noqa: PTH116
    return sizes
