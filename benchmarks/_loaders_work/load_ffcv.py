"""FFCV: photos in a file of its own format, as the same JPEG data. Its loader compiles its pipeline with numba."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Imported first, because it sets a variable that numba reads on import.
from ffcv_loader import dataset  # isort: skip

import numpy as np
from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, ToTensor, ToTorchImage
from measure import BATCH, SIZE
from PIL import Image
from steps import MEAN, STD

if TYPE_CHECKING:
    from collections.abc import Iterator


EPOCHS = 100


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Decode and resize by area averaging, which FFCV's decoder offers. A whole image counts as a crop."""
    width, height = Image.open(paths[0]).size
    whole = {"scale": (1, 1), "ratio": (width / height, width / height)}
    steps: list[Any] = [RandomResizedCropRGBImageDecoder((SIZE, SIZE), **whole)]
    if step == "normalise":
        means, deviations = (np.array([255 * value for value in values]) for values in (MEAN, STD))
        steps += [NormalizeImage(means, deviations, np.float32), ToTensor(), ToTorchImage()]
    loader = Loader(
        dataset(str(Path(paths[0]).parent)),
        batch_size=1 if step == "decode" else BATCH,
        num_workers=workers,
        os_cache=True,
        # Long epochs, because FFCV starts its threads anew in each.
        indices=np.tile(np.arange(len(paths)), EPOCHS),
        order=OrderOption.SEQUENTIAL,
        pipelines={"image": steps},
    )

    def run() -> Iterator[Any]:
        while True:
            for (batch,) in loader:
                yield batch[0] if step == "decode" else batch

    yield run()
