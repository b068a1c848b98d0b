"""NVIDIA DALI on the CPU: its own pipeline with its own threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crops import RATIO, SCALE
from measure import BATCH, SIZE, Figures, photos, whole_loader
from nvidia.dali import fn, pipeline_def, types

if TYPE_CHECKING:
    from collections.abc import Iterator


def loader(*, folder: str, images: int, workers: int, antialias: bool, crop: bool = False) -> Figures:
    """Read, decode, resize and batch. With `crop`, its decoder decodes only the crop."""
    paths = photos(folder)

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def load() -> Any:
        encoded, _ = fn.readers.file(files=paths, name="reader")
        if crop:
            image = fn.decoders.image_random_crop(encoded, random_area=list(SCALE), random_aspect_ratio=list(RATIO))
        else:
            image = fn.decoders.image(encoded)
        image = fn.resize(
            image, resize_x=SIZE, resize_y=SIZE, interp_type=types.DALIInterpType.INTERP_LINEAR, antialias=antialias
        )
        return fn.flip(image, horizontal=fn.random.coin_flip()) if crop else image

    pipeline = load()
    pipeline.build()

    def run(number: int) -> Iterator[int]:
        for _ in range(number // BATCH):
            (batch,) = pipeline.run()
            # A view of DALI's memory, which is one array.
            yield len(batch.as_array())

    return whole_loader(run, images)
