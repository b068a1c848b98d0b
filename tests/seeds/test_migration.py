"""The code of "Migrating from PyTorch DataLoader", run as it is written there.

Its names `num_workers`, `prefetch_factor` and `batch_size` get values, `dataset_directory` is a folder of images, and
modules that it uses without importing them are imported. Within `pipeline.auto_stop()`, its `dataloader` is the
pipeline, as the surrounding text says. PyTorch's would fork there while Pillow imports something in another thread, and
the child would wait for that import for ever.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.images import Array, make_image

# Three processes import PyTorch one after the other, possibly on a busy machine.
pytestmark = pytest.mark.timeout(180)

COUNT, CLASSES, SIDE = 40, 4, 300

NAMES = """
import numpy as np
import spdl.io
from spdl.io import ImageFrames

num_workers = 2
prefetch_factor = 3
batch_size = 16
results = {}

def keep(name, items):
    items = list(items)
    batches = [image[None] if image.ndim == 3 else image for image, _ in items]
    results[name + " images"] = np.concatenate([batch.numpy() for batch in batches])
    results[name + " classes"] = np.concatenate([np.atleast_1d(classes) for _, classes in items])
    results[name + " lengths"] = np.array([len(batch) for batch in batches])
"""

DATASET = """
from torchvision.datasets import ImageNet
from torchvision.transforms import Compose, PILToTensor, Resize

dataset = ImageNet(
    "dataset_directory",
    transform=Compose([Resize((224, 224)), PILToTensor()]),
)
"""

TORCH_UNBATCHED = """
import torch

dataloader = torch.utils.data.DataLoader(
    dataset,
    batch_size=None,
    num_workers=num_workers,
)

for batch, classes in dataloader:
    ...
"""

SPDL_UNBATCHED = """
from spdl.dataloader import PipelineBuilder

pipeline = (
    PipelineBuilder()
    .add_source(range(len(dataset)))
    .pipe(
        dataset.__getitem__,
        concurrency=num_workers,
        output_order="input",
    )
    .add_sink(prefetch_factor)
    .build(num_threads=num_workers)
)
"""

LOOP = """
with pipeline.auto_stop():
    for batch, classes in dataloader:
        ...
"""

TORCH_BATCHED = """
dataloader = torch.utils.data.DataLoader(
    dataset,
    batch_size=32,
    # ^^^^^^^^^^^^
    num_workers=num_workers,
)

for batch, classes in dataloader:
    ...
"""

SPDL_BATCHED = """
pipeline = (
    PipelineBuilder()
    .add_source(range(len(dataset)))
    .pipe(
        dataset.__getitem__,
        concurrency=num_workers,
        output_order="input",
    )
    .aggregate(32)
    # ^^^^^^^^^^^^
    .pipe(torch.utils.data.default_collate)
    # ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    .add_sink(prefetch_factor)
    .build(num_threads=num_workers)
)
"""

SPDL_IO = """
filter_desc = spdl.io.get_video_filter_desc(
    scale_width=224,
    scale_height=224,
)

def decode_image(path: str) -> ImageFrames:
    packets = spdl.io.demux_image(path)
    return spdl.io.decode_packets(packets, filter_desc=filter_desc)

dataset = ImageNet(
    "dataset_directory",
    loader = decode_image,
    # ^^^^^^^^^^^^^^^^^^^
)

def convert(items):
    frames, clsses = list(zip(*items))
    buffer = spdl.io.convert_frames(frames)
    tensor = spdl.io.to_torch(buffer).permute(0, 3, 1, 2)
    return tensor, clsses

pipeline = (
    PipelineBuilder()
    .add_source(range(len(dataset)))
    .pipe(
        dataset.__getitem__,
        concurrency=num_workers,
        output_order="input",
    )
    .aggregate(batch_size)
    .pipe(convert)
    .add_sink(prefetch_factor)
    .build(num_threads=num_workers)
)
"""

READ = """
with pipeline.auto_stop():
    keep({!r}, pipeline)
"""

PROGRAM = "".join(
    [
        NAMES,
        DATASET,
        TORCH_UNBATCHED,
        "keep('torch unbatched', dataloader)",
        SPDL_UNBATCHED,
        "dataloader = pipeline",
        LOOP,
        SPDL_UNBATCHED,
        READ.format("spdl unbatched"),
        TORCH_BATCHED,
        "keep('torch batched', dataloader)",
        SPDL_BATCHED,
        READ.format("spdl batched"),
        SPDL_IO,
        READ.format("spdl.io"),
        "np.savez('results.npz', **results)",
    ]
)

Results = Mapping[str, Array]


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    return [make_image(SIDE, SIDE, seed) for seed in range(COUNT)]


@pytest.fixture(scope="module")
def results(images: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> Results:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("migration")
    for number, image in enumerate(images):
        path = folder / "dataset_directory" / "train" / f"n{number * CLASSES // COUNT:08}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).with_name("stand_in"))},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(np.load(folder / "results.npz"))


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("torch unbatched", [1] * COUNT),
        ("spdl unbatched", [1] * COUNT),
        ("torch batched", [32, 8]),
        ("spdl batched", [32, 8]),
        ("spdl.io", [16, 16, 8]),
    ],
)
def test_each_loader_gives_all_in_order(results: Results, name: str, lengths: list[int]) -> None:
    assert results[f"{name} lengths"].tolist() == lengths
    assert results[f"{name} images"].shape == (COUNT, 3, 224, 224)
    assert results[f"{name} classes"].tolist() == [number * CLASSES // COUNT for number in range(COUNT)]


def test_the_data_set_is_loaded_by_pillow(results: Results, images: list[Image.Image]) -> None:
    expected: Any = np.stack([np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR)) for image in images])
    for name in ("torch unbatched", "spdl unbatched", "torch batched", "spdl batched"):
        np.testing.assert_array_equal(results[f"{name} images"].transpose(0, 2, 3, 1), expected)


def test_spdl_io_scales_as_ffmpeg_does(results: Results, images: list[Image.Image]) -> None:
    expected: Any = np.stack([np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC)) for image in images])
    difference = np.abs(results["spdl.io images"].transpose(0, 2, 3, 1).astype(int) - expected)
    # FFmpeg's bicubic has different coefficients from Pillow's, and the noise in these images shows it.
    assert difference.mean() < 3
    other = np.abs(expected[1:].astype(int) - expected[:-1])
    assert difference.mean() < other.mean() / 5
