"""One contender loads to a GPU, and prints its figures as JSON. `benchmarks/gpu.py` runs it."""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from spdl.dataloader import ImageLoader
from spdl.io import (
    ImageOptions,
    convert_array,
    cpu_storage,
    cuda_config,
    decode_packets_nvdec,
    demux_video,
    load_image_batch,
    load_video_batch,
    to_torch,
    transfer_buffer,
)
from spdl.source import LocalDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 128
SMALL_BATCH = 32
SIDE = 224
THREADS = 16
STREAMS = 8
SECONDS = 10.0
REPEATS = 20
"""How often an epoch has each photo: with few, loaders would spend their time on beginning epochs."""
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
OPTIONS = ImageOptions(
    SIDE, SIDE, mode="stretch", interpolation="bilinear", layout="NCHW", dtype="float16", mean=MEAN, std=STD
)


def rate(work: Callable[[], int]) -> float:
    """Return how many things per second the work does, which returns how many it did. The first time does not count."""
    work()
    torch.cuda.synchronize()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        done += work()
    torch.cuda.synchronize()
    return done / (time.perf_counter() - start)


def photos(folder: str) -> list[Path]:
    """Return the JPEGs of a folder, in any depth."""
    return sorted(Path(folder).rglob("*.jpg"))


def jpeg(contender: str, folder: str) -> dict[str, float]:
    """Decode batches whose bytes are in memory, on several threads."""
    data = [path.read_bytes() for path in itertools.islice(itertools.cycle(photos(folder)), BATCH)]
    if contender == "spdl-turbo":
        stream = torch.cuda.Stream()
        config = cuda_config(0, stream.cuda_stream)

        def work() -> int:
            batch = load_image_batch(data, options=OPTIONS, device_config=config, num_threads=THREADS)
            assert batch.backends.count("nvjpeg") >= BATCH // 2, "nvJPEG is not used"
            return len(batch)

        return {"images_per_second": rate(work)}
    from torchvision.io import ImageReadMode, decode_jpeg  # noqa: PLC0415 - of this contender only.

    tensors = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in data]
    return {"images_per_second": rate(lambda: len(decode_jpeg(tensors, mode=ImageReadMode.RGB, device="cuda")))}


def spdl_batches(folder: str) -> Iterator[torch.Tensor]:
    """Yield batches of a folder on the GPU, decoded on the CPU."""
    while True:
        paths = LocalDirectory(folder, "**/*.jpg")
        loader: Any = ImageLoader(
            list(paths) * REPEATS, SMALL_BATCH, options=OPTIONS, device="cuda", num_threads=THREADS
        )
        for batch in loader:
            yield batch.image


class Photos(torch.utils.data.Dataset[Any]):
    """Photos as PyTorch users load them."""

    def __init__(self, folder: str) -> None:
        from torchvision import transforms  # noqa: PLC0415 - of this contender only.

        self.paths = photos(folder) * REPEATS
        self.transform = transforms.Compose(
            [transforms.Resize((SIDE, SIDE)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image  # noqa: PLC0415

        return self.transform(Image.open(self.paths[index]).convert("RGB")).half()


def torch_batches(folder: str) -> Iterator[torch.Tensor]:
    """Yield batches of a folder on the GPU, by PyTorch's own loader."""
    loader = torch.utils.data.DataLoader(
        Photos(folder), SMALL_BATCH, num_workers=THREADS, pin_memory=True, persistent_workers=True
    )
    while True:
        for batch in loader:
            yield batch.to("cuda", non_blocking=True)


def folder(contender: str, place: str) -> dict[str, float]:
    """Take batches of a folder as fast as they come."""
    batches = spdl_batches(place) if contender == "spdl-turbo" else torch_batches(place)
    return {"images_per_second": rate(lambda: len(next(batches)))}


def step(contender: str, place: str) -> dict[str, float]:
    """Train ResNet-50 in bfloat16, on loaded batches or on one that stays."""
    from torchvision.models import resnet50  # noqa: PLC0415 - of this row only.

    model = resnet50().to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = spdl_batches(place)
    kept = next(batches)
    labels = torch.zeros(SMALL_BATCH, dtype=torch.long, device="cuda")
    seconds = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < 3 * SECONDS:
        start = time.perf_counter()
        images = next(batches) if contender == "spdl-turbo" else kept
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.float()), labels[: len(images)])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if len(images) == SMALL_BATCH:
            seconds.append(time.perf_counter() - start)
    return {"milliseconds_per_step": 1000 * median(seconds[len(seconds) // 4 :])}


def copy(contender: str, _: str) -> dict[str, float]:
    """Copy batches of bytes from pinned memory."""
    size = BATCH * SIDE * SIDE * 3
    stream = torch.cuda.Stream()
    if contender == "spdl-turbo":
        values: Any = torch.zeros(size // 8, dtype=torch.int64).numpy()
        buffer = convert_array(values, cpu_storage(size, pin_memory=True))
        config = cuda_config(0, stream.cuda_stream)

        def work() -> int:
            transfer_buffer(buffer, device_config=config)
            return size
    else:
        here, there = (
            torch.zeros(size, dtype=torch.uint8).pin_memory(),
            torch.zeros(size, dtype=torch.uint8, device="cuda"),
        )

        def work() -> int:
            with torch.cuda.stream(stream):
                there.copy_(here, non_blocking=True)
            stream.synchronize()
            return size

    return {"gigabytes_per_second": rate(work) / 1e9}


def video(contender: str, clip: str) -> dict[str, float]:
    """Decode a clip to frames of 224x224 in float16, from 0 to 1, several at once."""

    def on_gpu(_: int) -> int:
        stream = torch.cuda.Stream()
        config = cuda_config(0, stream.cuda_stream)
        frames = decode_packets_nvdec(demux_video(clip), device_config=config, scale_width=SIDE, scale_height=SIDE)
        with torch.cuda.stream(stream):
            to_torch(frames).half().div_(255)
        stream.synchronize()
        return len(frames)

    if contender == "spdl-turbo, NVDEC":
        with ThreadPoolExecutor(STREAMS) as pool:
            return {"frames_per_second": rate(lambda: sum(pool.map(on_gpu, range(STREAMS))))}
    count = len(demux_video(clip))

    def on_cpu() -> int:
        batch = load_video_batch(
            [clip] * THREADS,
            num_frames=count,
            width=SIDE,
            height=SIDE,
            mode="stretch",
            layout="NCHW",
            dtype="float16",
            num_threads=THREADS,
        )
        transfer_buffer(batch.clips, device_config=cuda_config(0))
        return THREADS * count

    return {"frames_per_second": rate(on_cpu)}


MEASURES = {"jpeg": jpeg, "folder": folder, "step": step, "copy": copy, "video": video}

if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    where = arguments["clip"] if arguments["row"] == "video" else arguments["photos"]
    print(json.dumps(MEASURES[arguments["row"]](arguments["contender"], where)))
