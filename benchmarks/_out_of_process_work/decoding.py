"""Measure how many photos are decoded into batches: by threads of this process, and by those of another one."""

from __future__ import annotations

import io
import time
from functools import partial
from statistics import median
from typing import Any

import numpy as np

WIDTH, HEIGHT = 224, 224


def _photo() -> bytes:
    from PIL import Image  # noqa: PLC0415 - only to make the photo.

    # Smooth, with some noise, as photos are.
    x, y = np.meshgrid(np.linspace(0, 255, 640), np.linspace(0, 255, 480))
    noise = np.random.default_rng(1).normal(0, 6, (480, 640, 3))
    pixels = np.clip(np.stack([x, y, 255 - x], axis=-1) + noise, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def _decode(photos: list[bytes], *, shared: bool) -> Any:
    import spdl.io  # noqa: PLC0415 - the contender's.
    from spdl.pipeline import shared_storage  # noqa: PLC0415

    storage = shared_storage(len(photos) * WIDTH * HEIGHT * 3) if shared else None
    return spdl.io.to_numpy(spdl.io.load_image_batch(photos, width=WIDTH, height=HEIGHT, storage=storage))


def batches(*, count: int, size: int, threads: int, where: str) -> dict[str, float]:
    """Receive batches, decoded in this process, or in another one: into shared memory, or copied into it."""
    from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess  # noqa: PLC0415 - the contender's.

    photos = [_photo()] * size
    builder: Any = PipelineBuilder().add_source([photos] * count)
    op = partial(_decode, shared=where == "shared")
    config = builder.pipe(op, concurrency=threads).add_sink(3).get_config()
    items: Any = None if where == "here" else run_pipeline_in_subprocess(config, num_threads=threads)
    rates = []
    for _ in range(4):
        begin = time.perf_counter()
        if items is None:
            pipeline = builder.build(num_threads=threads)
            with pipeline.auto_stop():
                received = sum(len(batch) for batch in pipeline)
        else:
            received = sum(len(batch) for batch in items)
        rates.append(received / (time.perf_counter() - begin))
        if received != count * size:
            raise SystemExit(f"{received} photos came out of {count * size}")
    return {"photos_per_second": median(rates[1:])}
