"""Measure how long a profile takes. Only our own interpreter runs this, so it may use the rest of this project."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from usage import cpu_seconds, peak_memory_mb

if TYPE_CHECKING:
    from spdl.pipeline.defs import PipelineConfig


def demo(*, batch_size: int, size: int) -> dict[str, float]:
    """Profile the pipeline of `spdl demo`: batches of its photos, decoded and resized."""
    from spdl.pipeline import profile_pipeline  # noqa: PLC0415 - as in the other works.

    declaration = declared(batch_size, size)
    began = time.perf_counter()
    (result,) = profile_pipeline(declaration)
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "best_items_per_second": max(it.qps for it in result.stats),
        "measurements": len(result.stats),
        "cpu_seconds": cpu_seconds(),
        "peak_memory_mb": peak_memory_mb(),
    }


def declared(batch_size: int, size: int) -> PipelineConfig[Any]:
    """Return the declaration of the demo's pipeline. The command builds the pipeline directly."""
    from spdl.cli._common.console import Console  # noqa: PLC0415
    from spdl.cli._demo.live_run import LoadImages, default_threads, images_pipeline, passes_over_folder  # noqa: PLC0415
    from spdl.cli._demo.photos import demo_photos, list_images  # noqa: PLC0415
    from spdl.pipeline import config  # noqa: PLC0415

    load = LoadImages(size)
    passes = passes_over_folder(list_images(demo_photos(Console())), batch_size, 60, load)
    built: list[PipelineConfig[Any]] = []
    config.set_default_build_callback(built.append)
    try:
        images_pipeline(passes, load, default_threads())
    finally:
        config.set_default_build_callback(None)
    return built[0]
