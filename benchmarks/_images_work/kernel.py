"""The resize alone: pixels in memory to pixels in memory, 712x712 to 224x224, bilinear with antialiasing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from measure import SIZE, Figures, photos

if TYPE_CHECKING:
    from collections.abc import Callable

FROM = 712


def ours(*, folder: str, workers: int, calls: int, kernels: str, exact: bool = True) -> Figures:
    """Measure our resize, through an entry of the native module that nothing else uses."""
    import numpy as np  # noqa: PLC0415 - each contender's process has only its own library.

    import spdl.io  # noqa: PLC0415
    from spdl.io._common.native import native  # noqa: PLC0415
    from spdl.io._image.options import make_load_options, resize_to  # noqa: PLC0415

    if not native.select_kernels(kernels):
        raise SystemExit(f"this processor does not run {kernels!r}")
    images = spdl.io.load_image_batch(photos(folder)[:1], width=FROM, height=FROM, mode="stretch")
    pixels = spdl.io.to_numpy(images)[0].tobytes()
    options = make_load_options(resize_to(SIZE, SIZE, "stretch", "bilinear"), exact=exact)
    result = np.empty((SIZE, SIZE, 3), np.uint8)
    return _timed(lambda: native.resize(pixels, (FROM, FROM), options, result), calls, workers)


def pillow(*, folder: str, workers: int, calls: int) -> Figures:
    """Measure the resize of Pillow, or of Pillow-SIMD, which has the same name."""
    from PIL import Image  # noqa: PLC0415

    with Image.open(photos(folder)[0]) as file:
        image = file.convert("RGB").resize((FROM, FROM))
    return _timed(lambda: image.resize((SIZE, SIZE), Image.Resampling.BILINEAR), calls, workers)


def _timed(call: Callable[[], Any], calls: int, workers: int) -> Figures:
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    for _ in range(calls // 10):
        call()
    cpu = time.process_time()
    for _ in range(calls):
        call()
    return {"microseconds": (time.process_time() - cpu) / calls * 1e6}
