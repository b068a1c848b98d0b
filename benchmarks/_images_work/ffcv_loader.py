"""FFCV: photos in a file of its own format, as the same JPEG data. Its loader compiles its pipeline with numba."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Otherwise numba refuses more workers than there are cores.
os.environ["NUMBA_NUM_THREADS"] = "32"

import numpy as np
from crops import RATIO, SCALE
from ffcv.fields import RGBImageField, rgb_image
from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip
from ffcv.writer import DatasetWriter
from measure import BATCH, SIZE, Figures, photos, whole_loader
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Iterator


class Photos:
    """A dataset that yields pixels, which the writer insists on, and remembers the file that they come from."""

    last = ""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any]:
        Photos.last = self._paths[index]
        with Image.open(Photos.last) as image:
            return (np.asarray(image.convert("RGB")),)


def dataset(folder: str) -> str:
    """Return FFCV's file of these photos, with each JPEG file's bytes unchanged. It is written on the first call."""
    file = Path(tempfile.gettempdir(), f"spdl-bench-{os.getuid()}-{Path(folder).name}.beton")
    if not file.exists():
        rgb_image.encode_jpeg = lambda _pixels, _quality: np.frombuffer(Path(Photos.last).read_bytes(), np.uint8)
        making = file.with_suffix(f".{os.getpid()}")
        writer = DatasetWriter(str(making), {"image": RGBImageField(write_mode="jpg")}, num_workers=1)
        writer.from_indexed_dataset(Photos(photos(folder)))
        making.rename(file)
    return str(file)


def loader(*, folder: str, images: int, workers: int, crop: bool = False) -> Figures:
    """Decode, crop and resize by area averaging, which FFCV's decoder offers. A whole image counts as a crop."""
    width, height = Image.open(photos(folder)[0]).size
    whole = {"scale": (1, 1), "ratio": (width / height, width / height)}
    decoder = RandomResizedCropRGBImageDecoder((SIZE, SIZE), **({"scale": SCALE, "ratio": RATIO} if crop else whole))
    steps = [decoder, RandomHorizontalFlip()] if crop else [decoder]
    epochs = Loader(
        dataset(folder),
        batch_size=BATCH,
        num_workers=workers,
        os_cache=True,
        # One long epoch, because FFCV starts its threads anew in each.
        indices=np.resize(np.arange(len(photos(folder))), images),
        order=OrderOption.SEQUENTIAL,
        pipelines={"image": steps},
    )

    def run(_number: int) -> Iterator[int]:
        for (batch,) in epochs:
            yield len(batch)

    return whole_loader(run, images)
