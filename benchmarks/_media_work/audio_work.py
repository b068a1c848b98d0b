"""The works on audio. Each takes the name of the module that reads."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Figures, peak_mib

if TYPE_CHECKING:
    from collections.abc import Callable

RATE = 16000


def whole(*, folder: str, workers: int, reader: str, clip: str, times: int, resampled: bool = True) -> Figures:
    """Load a sound that is in memory as floats of one channel, at 16 kHz if the library resamples."""
    load: Callable[[bytes, int], Any] = import_module(reader).sound
    data = (Path(folder) / clip).read_bytes()
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    for _ in range(2):
        _check(load(data, RATE), resampled=resampled)
    cpu, begin = time.process_time(), time.perf_counter()
    for _ in range(times):
        load(data, RATE)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    return {"files_per_cpu_second": times / cpu, "files_per_second": times / seconds, "peak_mib": peak_mib()}


def _check(values: Any, *, resampled: bool) -> None:
    """Refuse values of another shape than (1, 10 seconds)."""
    shape = tuple(values.shape)
    seconds = shape[1] / (RATE if resampled else 44100)
    if shape[0] != 1 or not 9.8 < seconds < 10.2:  # noqa: PLR2004
        raise SystemExit(f"{shape} samples came")
