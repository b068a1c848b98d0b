"""Every call of `spdl.io` that takes `storage` makes its array in memory that crosses to the parent without a copy."""

from __future__ import annotations

import io
import multiprocessing
import wave
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.io.av.media import clip

import spdl.io
from spdl.pipeline import iterate_in_subprocess, shared_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)

FORK = multiprocessing.get_context("fork")


def photo(kind: str = "JPEG") -> bytes:
    pixels = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def sound() -> bytes:
    samples = np.random.default_rng(2).integers(-9000, 9000, (8000, 2), np.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(2)
        written.setsampwidth(2)
        written.setframerate(8000)
        written.writeframes(samples.tobytes())
    return file.getvalue()


def images(storage: Any, **options: Any) -> Any:
    return spdl.io.load_image_batch([photo(), photo("PNG")], **{"width": 32, "height": 24, **options}, storage=storage)


def sounds(storage: Any, **options: Any) -> Any:
    return spdl.io.load_audio_batch([sound()] * 2, sample_rate=8000, storage=storage, **options).samples


def clips(storage: Any) -> Any:
    return spdl.io.load_video_batch([clip("h264.mp4")], num_frames=3, width=16, height=16, storage=storage).clips


def video(storage: Any, read: Callable[[spdl.io.VideoReader, Any], Any]) -> Any:
    return read(spdl.io.VideoReader(clip("h264.mp4")), storage)


def audio(storage: Any, read: Callable[[spdl.io.AudioReader, Any], Any]) -> Any:
    with spdl.io.AudioReader(sound()) as reader:
        return read(reader, storage)


def frames(storage: Any, make: Callable[[], Any]) -> Any:
    return spdl.io.convert_frames(make(), storage=storage)


def picture() -> Any:
    return spdl.io.decode_packets(spdl.io.demux_image(photo()))


CALLS: dict[str, Callable[[Any], Any]] = {
    "load_image_batch": images,
    "load_image_batch, float32": partial(images, dtype="float32", layout="NCHW"),
    "load_image_batch, FFmpeg": partial(images, filter_desc="scale=32:24,hflip,format=rgb24"),
    "load_image_batch, several threads": partial(images, num_threads=2),
    "load_audio_batch": sounds,
    "load_audio_batch, num_frames": partial(sounds, num_frames=900, num_channels=2),
    "load_video_batch": clips,
    "VideoReader.read_frames": partial(video, read=lambda reader, storage: reader.read_frames([2, 0], storage=storage)),
    "VideoReader.read_at": partial(video, read=lambda reader, storage: reader.read_at([0.0, 0.1], storage=storage)),
    "VideoReader.read": partial(video, read=lambda reader, storage: reader.read(0, 0.2, storage=storage)),
    "AudioReader.read": partial(audio, read=lambda reader, storage: reader.read(0, 0.5, storage=storage)),
    "AudioReader.read_samples": partial(
        audio, read=lambda reader, storage: reader.read_samples(10, 4000, storage=storage)
    ),
    "convert_frames, image": partial(frames, make=picture),
    "convert_frames, images": partial(frames, make=lambda: [picture(), picture()]),
    "convert_frames, audio": partial(frames, make=lambda: spdl.io.decode_packets(spdl.io.demux_audio(sound()))),
    "convert_frames, video": partial(
        frames, make=lambda: spdl.io.decode_packets(spdl.io.demux_video(clip("h264.mp4")))
    ),
    "convert_array": lambda storage: spdl.io.convert_array(list(range(2000)), storage=storage),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_takes_a_slot(name: str) -> None:
    call = CALLS[name]
    expected = spdl.io.to_numpy(call(None))
    assert expected.nbytes > 2048
    written = FORK.Event()

    def fill_and_look() -> Iterator[Any]:
        """Make an array in a slot, send it, and tell what the slot has once the parent has written to it."""
        slot = shared_storage(expected.nbytes + 64)
        yield spdl.io.to_numpy(call(slot))
        assert written.wait(60)
        yield bytes(slot[: expected.nbytes])

    items = iterate_in_subprocess(fill_and_look, mp_context="fork")
    begun = iter(items)
    array = next(begun)
    np.testing.assert_array_equal(array, expected)
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    assert array.flags.writeable
    # The worker sees it, so both have the same memory.
    array[...] = 3
    written.set()
    assert next(begun) == array.tobytes()
    items.close()


@pytest.mark.parametrize("name", CALLS)
def test_a_slot_that_is_too_small_is_an_error(name: str) -> None:
    with pytest.raises(RuntimeError, match="too small"):
        CALLS[name](shared_storage(100))
    with pytest.raises(ValueError, match=r"`storage`.*read-only"):
        CALLS[name](bytes(1 << 22))
