"""The example of the document on `spdl.dataloader.DataLoader`, run as it is written there.

`root_dir` is a folder of images. Modules that the example uses without importing them are imported. Under the marker
`cuda` nothing else differs. Elsewhere, our own driver stands in for CUDA's, and there are stand-ins for PyTorch's
stream and for its view of a GPU's memory.
"""

import collections.abc
import ctypes
import glob
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cuda_driver import FakeDriver
from tests.io.images import make_jpeg

import spdl.io
from spdl.dataloader import DataLoader

torch = pytest.importorskip("torch")

EXAMPLE = """
import spdl.io
from spdl.io import CPUBuffer, CUDABuffer, ImageFrames

import torch
from torch import Tensor

##################################################################
# Source
##################################################################
def source(root_dir: str) -> Iterable[str]:
    # Iterate the directory and find images.
    yield from glob.iglob(f"{root_dir}/**/*.JPEG", recursive=True)

##################################################################
# Preprocessor
##################################################################
width, height, batch_size = 224, 224, 32

# Filter description that scales the image and convert to RGB
filter_desc = spdl.io.get_filter_desc(
    scale_width=width,
    scale_height=height,
    pix_fmt="rgb24"
)

def decode_image(path: str) -> ImageFrames:
    # Decode image and resize
    packets = spdl.io.demux_image(path)
    return spdl.io.decode_packets(packets, filter_desc=filter_desc)

##################################################################
# Aggregator
##################################################################
size = width * height * batch_size * 3
storage = spdl.io.cpu_storage(size, pin_memory=True)

def batchify(data: list[ImageFrames]) -> Tensor:
    # Merge the decoded frames into the pre-allocated pinned-memory.
    return spdl.io.convert_frames(data, storage=storage)

##################################################################
# Transfer
##################################################################
cuda_device_index = 0
stream = torch.cuda.Stream(device=cuda_device_index)
cuda_config = spdl.io.cuda_config(
    device_index=cuda_device_index,
    stream=stream.cuda_stream,
)

def transfer(cpu_buffer: CPUBuffer) -> CUDABuffer:
    # Send to CUDA in a separate stream.
    cuda_buffer = spdl.io.transfer_buffer(cpu_buffer, cuda_config=cuda_config)
    # Cast to Torch Tensor type.
    return spdl.io.to_torch(cuda_buffer)

dataloader = DataLoader(
    src=source(root_dir),
    preprocessor=decode_image,
    batch_size=batch_size,
    aggregator=batchify,
    transfer_fn=transfer,
)

for batch in dataloader:
    ...
"""

IMAGES, BATCH = 8 * 32 + 7, 32


@pytest.fixture(scope="module")
def root_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(IMAGES):
        path = root / f"class{number % 3}" / f"{number:04}.JPEG"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(make_jpeg(80, 60, number))
    return root


@pytest.fixture
def stand_in(fake_cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Make PyTorch behave as if it were built with CUDA, as far as the example needs it."""

    def view(buffer: Any) -> Any:
        # On the fake GPU, an address is one of main memory.
        assert tuple(buffer.__dlpack_device__()) == (2, 0)
        memory = (ctypes.c_uint8 * buffer.nbytes).from_address(buffer.__cuda_array_interface__["data"][0])
        memory.owner = buffer
        return torch.frombuffer(memory, dtype=torch.uint8).view(buffer.shape)

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(cuda_stream=0x70 + device))
    monkeypatch.setattr(torch, "from_dlpack", view)
    return fake_cuda


def run_example(root_dir: Path, **names: Any) -> list[Any]:
    """Run the example, and return the batches that its loop gets."""
    batches = []

    class Recorded(DataLoader[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            for batch in super().__iter__():
                batches.append(batch)
                yield batch

    namespace = {"Iterable": collections.abc.Iterable, "glob": glob, "DataLoader": Recorded, "root_dir": root_dir}
    exec(compile(EXAMPLE, "<example>", "exec"), {**namespace, **names})  # noqa: S102 - ours.
    return batches


def images_of(batches: list[Any]) -> list[bytes]:
    return sorted(image.tobytes() for batch in batches for image in batch.cpu().numpy())


def load_alone(root_dir: Path) -> list[bytes]:
    """Load the images one after the other, without storage, transfer and threads."""
    filters = spdl.io.get_video_filter_desc(scale_width=224, scale_height=224, pix_fmt="rgb24")
    return sorted(
        spdl.io.to_numpy(spdl.io.load_image(path, filter_desc=filters)).tobytes() for path in root_dir.glob("*/*.JPEG")
    )


def check(batches: list[Any], root_dir: Path) -> None:
    assert sorted(len(batch) for batch in batches) == [IMAGES % BATCH, *[BATCH] * (IMAGES // BATCH)]
    assert {(tuple(batch.shape[1:]), batch.dtype) for batch in batches} == {((224, 224, 3), torch.uint8)}
    found, expected = images_of(batches), load_alone(root_dir)
    assert len(set(expected)) == IMAGES
    assert found == expected


def test_the_example_gives_every_image_once(stand_in: FakeDriver, root_dir: Path) -> None:
    check(run_example(root_dir), root_dir)
    assert stand_in.calls("cuMemcpyHtoDAsync_v2") == IMAGES // BATCH + 1


@pytest.mark.cuda
def test_the_example_on_a_gpu(root_dir: Path) -> None:
    batches = run_example(root_dir)
    assert {str(batch.device) for batch in batches} == {"cuda:0"}
    check(batches, root_dir)


@pytest.mark.parametrize("slow", ["function", "copy"])
def test_slow_transfers_find_every_batch_as_it_was_made(
    stand_in: FakeDriver, root_dir: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    transfer_buffer = spdl.io.transfer_buffer

    def transfer_late(*args: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return transfer_buffer(*args, **options)

    if slow == "copy":
        stand_in.set_latency(0.05)
    else:
        monkeypatch.setattr(spdl.io, "transfer_buffer", transfer_late)
    check(run_example(root_dir), root_dir)


def test_aggregators_do_not_wait_for_the_transfer(
    stand_in: FakeDriver, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_buffer, convert_frames = spdl.io.transfer_buffer, spdl.io.convert_frames
    made: list[int] = []
    enough = threading.Event()

    def convert(*args: Any, **options: Any) -> Any:
        buffer = convert_frames(*args, **options)
        made.append(spdl.io.to_numpy(buffer).ctypes.data)
        if len(made) == 3:
            enough.set()
        return buffer

    def transfer_last(*args: Any, **options: Any) -> Any:
        # The first batch is held until others are made. If those had to wait for it, they would wait for ever.
        assert enough.wait(50)
        return transfer_buffer(*args, **options)

    monkeypatch.setattr(spdl.io, "convert_frames", convert)
    monkeypatch.setattr(spdl.io, "transfer_buffer", transfer_last)
    check(run_example(root_dir), root_dir)
    assert len(set(made[:3])) == 3


def test_with_and_without_storage_the_batches_are_the_same_in_order(stand_in: FakeDriver, root_dir: Path) -> None:
    paths = sorted(root_dir.glob("*/*.JPEG"))
    config = spdl.io.cuda_config(0, 0x70)
    stand_in.set_latency(0.02)

    def load(storage: Any) -> list[Any]:
        def transfer(buffer: Any) -> Any:
            return spdl.io.to_torch(spdl.io.transfer_buffer(buffer, cuda_config=config))

        loader: DataLoader[Any, Any] = DataLoader(
            paths,
            preprocessor=lambda path: spdl.io.decode_packets(spdl.io.demux_image(path)),
            batch_size=4,
            aggregator=lambda frames: spdl.io.convert_frames(frames, storage=storage),
            transfer_fn=transfer,
            output_order="input",
        )
        return [batch.numpy() for batch in loader]

    for with_storage, without in zip(load(spdl.io.cpu_storage(4 * 80 * 60 * 3)), load(None), strict=True):
        np.testing.assert_array_equal(with_storage, without)
