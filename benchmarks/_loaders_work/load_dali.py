"""NVIDIA DALI on the CPU: its own pipeline with its own threads."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from measure import BATCH, SIZE
from nvidia.dali import fn, pipeline_def, types
from steps import MEAN, STD

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Read, decode, resize and normalise. It works in batches also for single photos."""

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def load() -> Any:
        encoded, _ = fn.readers.file(files=paths, name="reader")
        image = fn.resize(
            fn.decoders.image(encoded),
            resize_x=SIZE,
            resize_y=SIZE,
            interp_type=types.DALIInterpType.INTERP_LINEAR,
            antialias=True,
        )
        if step != "normalise":
            return image
        means, deviations = ([255 * value for value in values] for values in (MEAN, STD))
        return fn.crop_mirror_normalize(
            image, dtype=types.DALIDataType.FLOAT, output_layout="CHW", mean=means, std=deviations
        )

    pipeline = load()
    pipeline.build()

    def run() -> Iterator[Any]:
        while True:
            (batch,) = pipeline.run()
            # A view of DALI's memory, which is one array.
            array = batch.as_array()
            if step == "decode":
                yield from array
            else:
                yield array

    yield run()
