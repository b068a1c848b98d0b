"""The flow of the reference's image example, as its users wrote it: packets, frames, one buffer per batch, a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.io.images import write_jpegs

import spdl.io
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

SIZE = 64


class Folder:
    """A dataset like torchvision's: files with a class each, decoded by the given loader."""

    def __init__(self, paths: list[str], loader: Any) -> None:
        self.paths = paths
        self.loader = loader

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.loader(self.paths[index]), index % 3


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_flow_as_it_was_written(batch_size: int, tmp_path: Path) -> None:
    paths = write_jpegs(tmp_path, 10)
    filter_desc = spdl.io.get_video_filter_desc(scale_width=SIZE, scale_height=SIZE)

    def decode_image(path: str) -> Any:
        packets = spdl.io.demux_image(path)
        return spdl.io.decode_packets(packets, filter_desc=filter_desc)

    dataset = Folder(paths, decode_image)

    def convert(items: Any) -> Any:
        frames, cls = list(zip(*items, strict=True))
        buffer = spdl.io.convert_frames(frames)
        tensor = spdl.io.to_torch(buffer).permute(0, 3, 1, 2)
        return tensor, cls

    pipeline = (
        PipelineBuilder[Any, Any]()
        .add_source(range(len(dataset)))
        .pipe(dataset.__getitem__, concurrency=3, output_order="input")
        .aggregate(batch_size)
        .pipe(convert)
        .add_sink(3)
        .build(num_threads=3)
    )
    with pipeline.auto_stop():
        batches = list(pipeline)
    assert [len(cls) for _, cls in batches] == [min(batch_size, 10 - start) for start in range(0, 10, batch_size)]
    assert [label for _, cls in batches for label in cls] == [index % 3 for index in range(10)]
    images = torch.cat([tensor for tensor, _ in batches])
    assert images.shape == (10, 3, SIZE, SIZE)
    assert images.dtype is torch.uint8
    for image, path in zip(images, paths, strict=True):
        with Image.open(path) as file:
            expected = np.asarray(ImageOps.pad(file.convert("RGB"), (SIZE, SIZE), Image.Resampling.BICUBIC))
        difference = np.abs(image.permute(1, 2, 0).numpy().astype(np.int16) - expected.astype(np.int16))
        assert difference.mean() <= 0.5
