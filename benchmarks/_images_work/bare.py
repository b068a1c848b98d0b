"""libjpeg-turbo alone, through its own interface: bytes in memory, one reused buffer."""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import BATCH, Figures, batches, on_one_thread, photos, whole_loader
from threads import in_threads, scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def decoder(paths: list[str], fraction: int = 1) -> Callable[[list[str]], None]:
    """Read these photos, and return a function that decodes batches of them at a fraction of their size."""
    name = ctypes.util.find_library("turbojpeg")
    if name is None:
        raise SystemExit("the library turbojpeg is not installed")
    library = ctypes.CDLL(name)
    library.tjInitDecompress.restype = ctypes.c_void_p
    pointers: list[Any] = [ctypes.c_void_p] * 4
    library.tjDecompressHeader3.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong, *pointers]
    numbers: list[Any] = [ctypes.c_int] * 5
    library.tjDecompress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p, *numbers]
    state = library.tjInitDecompress()
    images = {}
    largest = 0
    for path in set(paths):
        data = Path(path).read_bytes()
        width, height, subsampling, space = (ctypes.c_int() for _ in range(4))
        found = [ctypes.addressof(value) for value in (width, height, subsampling, space)]
        if library.tjDecompressHeader3(state, data, len(data), *found) != 0:
            raise SystemExit(f"{path} is no JPEG")
        # libjpeg-turbo rounds up, and wants to be given the output size.
        images[path] = (data, -(-width.value // fraction), -(-height.value // fraction))
        largest = max(largest, 3 * width.value * height.value)
    buffer = ctypes.create_string_buffer(largest)

    def load(batch: list[str]) -> None:
        for path in batch:
            data, width, height = images[path]
            # Pixel format 0 is RGB, flags 0 the slow inverse DCT and fancy upsampling.
            status = library.tjDecompress2(state, data, len(data), buffer, width, 3 * width, height, 0, 0)
            if status != 0:
                raise SystemExit(f"{path} cannot be decoded")

    return load


def one_thread(*, folder: str, images: int, workers: int, fraction: int = 1) -> Figures:
    """Decode in the calling thread."""
    if workers != 1:
        raise SystemExit("this work runs on one thread, so it takes one worker")
    return on_one_thread(decoder(photos(folder), fraction), folder, images)


def loader(*, folder: str, images: int, workers: int) -> Figures:
    """Decode in threads, each with a decoder of its own."""
    paths = photos(folder)
    decoders = [decoder(paths) for _ in range(workers)]

    def run(number: int) -> Iterator[int]:
        todo: list[list[list[str]]] = [[] for _ in range(workers)]
        for index, batch in enumerate(batches(paths, number)):
            todo[index % workers].append(batch)

        def decode(worker: int) -> int:
            for batch in todo[worker]:
                decoders[worker](batch)
            return BATCH * len(todo[worker])

        yield from in_threads(decode, range(workers), workers)

    return whole_loader(run, images)


def callers(*, folder: str, workers: int, seconds: float) -> Figures:
    """Compare a number of threads with one thread."""
    paths = photos(folder)
    return scaling([decoder(paths) for _ in range(workers)], paths, seconds)
