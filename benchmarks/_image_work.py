"""One contender of `image_decode.py`, in a process of its own: decodes a folder and prints what that cost, as JSON.

It runs under the interpreter of the contender, the released reference's among them, so it imports nothing but that.
Every contender runs on one thread and ends with batches of 32 in one array, except the bare decoder: that one writes
each image, at its full size, from memory into one buffer, and is the bound that the others are held against.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_SIZE = 32
SIZE = 224
PASSES = 2


def batch_call(resize: str, kernels: str) -> Callable[[list[str]], object]:
    """Our `load_image_batch`: one native call per batch."""
    import spdl.io  # noqa: PLC0415 - each contender's process has only its own library.
    from spdl.io._lazy import native  # noqa: PLC0415

    if not native.select_kernels(kernels):
        raise SystemExit(f"this processor does not run {kernels!r}")
    mode, interpolation = resize.split("-")
    keywords: dict[str, Any] = {"width": SIZE, "height": SIZE, "mode": mode, "interpolation": interpolation}
    return lambda paths: spdl.io.load_image_batch(paths, **keywords)


def seed_flow(resize: str) -> Callable[[list[str]], object]:
    """Demux, decode and convert, as programs written for the reference do; ours and the reference's alike."""
    import spdl.io  # noqa: PLC0415

    mode, interpolation = resize.split("-")
    desc = spdl.io.get_video_filter_desc(
        scale_width=SIZE, scale_height=SIZE, scale_mode="pad" if mode == "pad" else None, scale_algo=interpolation
    )

    def load(paths: list[str]) -> object:
        frames = [spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=desc) for path in paths]
        return spdl.io.convert_frames(frames)

    return load


def pillow(resize: str) -> Callable[[list[str]], object]:
    """Open, convert, resize, stack."""
    import numpy as np  # noqa: PLC0415
    from PIL import Image, ImageOps  # noqa: PLC0415

    mode, interpolation = resize.split("-")
    resampling = Image.Resampling[interpolation.upper()]

    def load_one(path: str) -> Image.Image:
        with Image.open(path) as file:
            image = file.convert("RGB")
        if mode == "pad":
            return ImageOps.pad(image, (SIZE, SIZE), resampling)
        return image.resize((SIZE, SIZE), resampling)

    return lambda paths: np.stack([np.asarray(load_one(path)) for path in paths])


def bare_decoder(paths: list[str]) -> Callable[[list[str]], object]:
    """libjpeg-turbo through its own interface, nothing else: bytes in memory, one reused buffer."""
    name = ctypes.util.find_library("turbojpeg")
    if name is None:
        raise SystemExit("the library turbojpeg is not installed")
    library = ctypes.CDLL(name)
    library.tjInitDecompress.restype = ctypes.c_void_p
    library.tjDecompressHeader3.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong] + [ctypes.c_void_p] * 4
    library.tjDecompress2.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p),
        *[ctypes.c_int] * 5,
    ]
    decoder = library.tjInitDecompress()
    images = {}
    largest = 0
    for path in paths:
        data = Path(path).read_bytes()
        width, height, subsampling, space = (ctypes.c_int() for _ in range(4))
        found = [ctypes.addressof(value) for value in (width, height, subsampling, space)]
        if library.tjDecompressHeader3(decoder, data, len(data), *found) != 0:
            raise SystemExit(f"{path} is no JPEG")
        images[path] = (data, width.value, height.value)
        largest = max(largest, 3 * width.value * height.value)
    buffer = ctypes.create_string_buffer(largest)

    def load(batch: list[str]) -> None:
        for path in batch:
            data, width, height = images[path]
            # Pixel format 0 is RGB, flags 0 the slow inverse DCT and fancy upsampling.
            status = library.tjDecompress2(decoder, data, len(data), buffer, width, 3 * width, height, 0, 0)
            if status != 0:
                raise SystemExit(f"{path} cannot be decoded")

    return load


def contender(name: str, resize: str, paths: list[str]) -> Callable[[list[str]], object]:
    """Prepare a contender by its name; "batch" may name its kernels, as in "batch:avx2"."""
    kind, _, kernels = name.partition(":")
    if kind == "batch":
        return batch_call(resize, kernels)
    if kind == "seed-flow":
        return seed_flow(resize)
    if kind == "pillow":
        return pillow(resize)
    return bare_decoder(paths)


def main() -> None:
    """Warm up with a pass over a few batches, measure whole passes, print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contender")
    parser.add_argument("resize")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    paths = sorted(str(path) for path in options.folder.glob("*.jpg"))
    batches = [paths[start : start + BATCH_SIZE] for start in range(0, len(paths), BATCH_SIZE)]
    load = contender(options.contender, options.resize, paths)
    for batch in batches[:4]:
        load(batch)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(PASSES):
        for batch in batches:
            load(batch)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    images = PASSES * len(paths)
    print(
        json.dumps(
            {
                "images_per_cpu_second": images / cpu,
                "images_per_second": images / wall,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
