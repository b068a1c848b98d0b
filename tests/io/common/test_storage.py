"""cpu_storage: memory in which arrays are made again and again, and which no two of them share."""

import gc
import mmap
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    CPUStorage,
    ImageFrames,
    convert_frames,
    cpu_storage,
    decode_packets,
    demux_image,
    load_image_batch,
    to_numpy,
)

WIDTH, HEIGHT = 40, 30
BYTES = WIDTH * HEIGHT * 3
IMAGES = [make_image(WIDTH, HEIGHT, seed) for seed in range(8)]
PIXELS = [np.asarray(image) for image in IMAGES]
PNGS = [encode(image, "PNG") for image in IMAGES]


def frames_of(seed: int) -> ImageFrames:
    return decode_packets(demux_image(PNGS[seed]))


def convert(storage: CPUStorage, *seeds: int) -> Any:
    return to_numpy(convert_frames([frames_of(seed) for seed in seeds], storage))


def address(array: Any) -> int:
    return int(array.ctypes.data)


def test_an_array_that_is_gone_makes_room_for_the_next() -> None:
    storage = cpu_storage(2 * BYTES, pin_memory=False)
    assert storage.nbytes == 2 * BYTES
    assert repr(storage) == f"CPUStorage({2 * BYTES} bytes)"
    first = convert(storage, 0, 1)
    np.testing.assert_array_equal(first, PIXELS[:2])
    place = address(first)
    del first
    single = to_numpy(convert_frames(frames_of(2), storage=storage))
    assert address(single) == place
    np.testing.assert_array_equal(single, PIXELS[2])
    del single
    batch = load_image_batch([make_jpeg()] * 2, width=WIDTH, height=HEIGHT, storage=storage)
    assert address(to_numpy(batch)) == place
    np.testing.assert_array_equal(
        to_numpy(batch), to_numpy(load_image_batch([make_jpeg()] * 2, width=WIDTH, height=HEIGHT))
    )


VIEWS: dict[str, Callable[[Any], Any]] = {
    "buffer": lambda buffer: buffer,
    "array": to_numpy,
    "slice": lambda buffer: to_numpy(buffer)[0, 3:7, ::2],
    "dlpack": np.from_dlpack,
    "memoryview": lambda buffer: to_numpy(buffer).data,
    "pickle": lambda buffer: pickle.PickleBuffer(to_numpy(buffer).data),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_no_array_is_written_over_while_it_or_a_view_of_it_lives(view: Any) -> None:
    storage = cpu_storage(BYTES, pin_memory=False)
    held = view(convert_frames([frames_of(0)], storage))
    expected = np.array(held)
    others = [convert(storage, seed) for seed in range(1, 8)]
    np.testing.assert_array_equal(np.array(held), expected)
    for pixels, other in zip(PIXELS[1:], others, strict=True):
        np.testing.assert_array_equal(other[0], pixels)
    assert len({address(other) for other in others}) == 7


def test_tensors_hold_their_part_too() -> None:
    torch = pytest.importorskip("torch")
    storage = cpu_storage(BYTES, pin_memory=False)
    tensor = torch.from_dlpack(convert_frames([frames_of(0)], storage)).permute(0, 3, 1, 2)
    np.testing.assert_array_equal(convert(storage, 1)[0], PIXELS[1])
    np.testing.assert_array_equal(tensor.permute(0, 2, 3, 1)[0].numpy(), PIXELS[0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=40))
def test_whatever_is_made_and_dropped_in_whatever_order(steps: list[tuple[int, int]]) -> None:
    storage = cpu_storage(BYTES, pin_memory=False)
    held: list[tuple[int, Any]] = []
    most = 0
    places = set()
    for seed, victim in steps:
        if victim < len(held):
            del held[victim]
        held.append((seed, convert(storage, seed)))
        most = max(most, len(held))
        places.add(address(held[-1][1]))
        assert all(np.array_equal(array[0], PIXELS[kept]) for kept, array in held)
    # No more memory than was in use at once.
    assert len(places) <= most


def test_threads_that_share_one_storage_never_meet() -> None:
    storage = cpu_storage(BYTES, pin_memory=False)

    def work(seed: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(convert(storage, seed)[0], PIXELS[seed])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_what_was_held_at_once_is_not_kept_for_ever() -> None:
    width, height = 1200, 1000
    size = width * height * 3
    storage = cpu_storage(size, pin_memory=False)
    frames = decode_packets(demux_image(encode(make_image(width, height), "JPEG")))
    held = [convert_frames(frames.clone(), storage) for _ in range(60)]
    full = psutil.Process().memory_info().rss
    held.clear()
    assert convert_frames(frames.clone(), storage).nbytes == size
    # 16 of the 60 wait for the next batches, and the process keeps a few blocks of every size.
    assert psutil.Process().memory_info().rss < full - 35 * size


def test_arrays_outlive_the_storage() -> None:
    storage = cpu_storage(BYTES, pin_memory=False)
    array = convert(storage, 0)
    del storage
    gc.collect()
    assert len([cpu_storage(BYTES, pin_memory=False) for _ in range(8)]) == 8
    np.testing.assert_array_equal(array[0], PIXELS[0])


def test_the_callers_array_is_always_written_to() -> None:
    data = make_jpeg(40, 30)
    expected = to_numpy(load_image_batch([data], width=20, height=10))
    array = np.zeros((3, 10, 20, 3), np.uint8)
    for _ in range(2):  # Though a view of it is alive.
        array[:] = 7
        buffer = load_image_batch([data, data], width=20, height=10, storage=array)
        view = to_numpy(buffer)
        assert address(view) == address(array)
        assert buffer.shape == (2, 10, 20, 3)
        np.testing.assert_array_equal(array[:2], expected.repeat(2, axis=0))
        assert (array[2] == 7).all()


@pytest.mark.parametrize("make", [bytearray, lambda size: mmap.mmap(-1, size), lambda size: np.zeros(size, np.uint8)])
def test_flat_memory_of_any_kind_will_do(make: Callable[[int], Any]) -> None:
    memory = make(4096)
    view = to_numpy(load_image_batch([make_jpeg(40, 30)], width=20, height=10, dtype="float32", storage=memory))
    np.testing.assert_array_equal(view.ravel(), np.frombuffer(memory, np.float32, 600))
    assert view.any()


def test_a_tensor_is_memory_too() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("uint8", "float16", "float32"):
        tensor = torch.zeros((2, 3, 10, 20), dtype=getattr(torch, dtype))
        keywords: dict[str, Any] = {"width": 20, "height": 10, "layout": "NCHW", "dtype": dtype}
        load_image_batch([make_jpeg(40, 30)] * 2, storage=tensor, **keywords)
        expected = to_numpy(load_image_batch([make_jpeg(40, 30)] * 2, **keywords))
        np.testing.assert_array_equal(tensor.numpy(), expected)


def test_the_result_keeps_the_callers_memory_alive() -> None:
    memory = bytearray(600)
    buffer = load_image_batch([make_jpeg(40, 30)], width=20, height=10, storage=memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    del buffer
    memory.extend(b"more")


@pytest.mark.parametrize(
    ("storage", "keywords", "message"),
    [
        (np.zeros((1, 10, 20, 3)), {}, "`storage` must be an array of uint8, or of bytes, got array.*format 'd'"),
        (np.zeros((1, 10, 20, 3), np.uint8), {"dtype": "float32"}, "`storage` must be an array of float32"),
        (
            np.zeros((1, 3, 10, 20), np.uint8),
            {},
            r"`storage` must be flat, or of the shape \(1, 10, 20, 3\)",
        ),
        (
            np.zeros((0, 10, 20, 3), np.uint8),
            {},
            r"`storage` must be flat, or of the shape \(1, 10, 20, 3\)",
        ),
        (np.zeros((1, 10, 20, 3), np.uint8), {"height": None}, "`storage` must be flat where the size of the images"),
        (np.zeros((1, 10, 20, 6), np.uint8)[..., ::2], {}, "can be written to, got array.*It is not contiguous"),
        (bytes(600), {}, "`storage` must be a contiguous array that can be written to, got b'.*It is read-only"),
    ],
)
def test_an_array_that_does_not_fit_is_named(storage: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_image_batch([make_jpeg()], **{"width": 20, "height": 10, "storage": storage, **keywords})


def test_flat_memory_must_have_room_and_be_aligned() -> None:
    with pytest.raises(RuntimeError, match="the storage of 599 bytes is too small for the 600"):
        load_image_batch([make_jpeg()], width=20, height=10, storage=bytearray(599))
    with pytest.raises(RuntimeError, match="starts at an address that is not a multiple of the 4 bytes of an element"):
        load_image_batch([make_jpeg()], width=2, height=2, dtype="float32", storage=np.zeros(99, np.uint8)[1:])


def test_a_storage_that_is_too_small_is_an_error() -> None:
    storage = cpu_storage(3599, pin_memory=False)
    with pytest.raises(
        RuntimeError, match=r"the storage of 3599 bytes is too small for the 3600.*at least 3600 bytes$"
    ):
        convert_frames(frames_of(0), storage)
    with pytest.raises(TypeError, match=r"^`storage` must be a CPUStorage, as `cpu_storage` returns, a writable array"):
        convert_frames(frames_of(0), 3)
    with pytest.raises(RuntimeError, match="the storage of 3599 bytes is too small for the 7200"):
        load_image_batch([make_jpeg()] * 2, width=WIDTH, height=HEIGHT, storage=storage)


def test_what_cannot_be_had_is_refused() -> None:
    for size in (0, -1, 2**63, 2**70):
        with pytest.raises(ValueError, match=f"^`size` must be an int from 1 to {2**63 - 1}, got {size} "):
            cpu_storage(size, pin_memory=False)
    with pytest.raises(TypeError, match=r"^`size` must be an int from 1 to \d+, got 2\.5 "):
        cpu_storage(2.5, pin_memory=False)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not fit this machine's memory"):
        cpu_storage(1 << 50, pin_memory=False)
