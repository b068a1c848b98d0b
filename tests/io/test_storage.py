"""cpu_storage: memory that arrays are made in again and again."""

import gc

import numpy as np
import pytest

from spdl.io import convert_frames, cpu_storage, decode_packets, demux_image, load_image_batch, to_numpy
from tests.io.images import encode, make_image, make_jpeg


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_arrays_are_made_in_the_storage() -> None:
    storage = cpu_storage(2 * 30 * 40 * 3, pin_memory=False)
    assert storage.nbytes == 7200
    assert repr(storage) == "CPUStorage(7200 bytes)"
    image = make_image(40, 30)
    frames = [decode_packets(demux_image(encode(image, "PNG"))) for _ in range(3)]
    first = to_numpy(convert_frames(frames[:2], storage))
    np.testing.assert_array_equal(first[1], np.asarray(image))
    second = to_numpy(convert_frames(frames[2], storage=storage))
    assert address(first) == address(second)
    np.testing.assert_array_equal(second, np.asarray(image))
    batch = to_numpy(load_image_batch([make_jpeg()] * 2, width=40, height=30, storage=storage))
    assert address(batch) == address(first)
    np.testing.assert_array_equal(batch, to_numpy(load_image_batch([make_jpeg()] * 2, width=40, height=30)))
    np.testing.assert_array_equal(first, batch)


def test_arrays_keep_the_storage_alive() -> None:
    storage = cpu_storage(30 * 40 * 3, pin_memory=False)
    array = to_numpy(convert_frames(decode_packets(demux_image(encode(make_image(40, 30), "PNG"))), storage))
    del storage
    gc.collect()
    assert len([cpu_storage(30 * 40 * 3, pin_memory=False) for _ in range(8)]) == 8
    np.testing.assert_array_equal(array, np.asarray(make_image(40, 30)))


def test_a_storage_that_is_too_small_is_an_error() -> None:
    storage = cpu_storage(3599, pin_memory=False)
    frames = decode_packets(demux_image(make_jpeg(40, 30)))
    with pytest.raises(
        RuntimeError, match=r"the storage of 3599 bytes is too small for the 3600.*at least 3600 bytes$"
    ):
        convert_frames(frames, storage)
    with pytest.raises(
        TypeError, match=r"^`storage` must be a CPUStorage, as `cpu_storage` returns, or None, got int$"
    ):
        convert_frames(frames, 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the storage of 3599 bytes is too small for the 7200"):
        load_image_batch([make_jpeg()] * 2, width=40, height=30, storage=storage)


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(RuntimeError, match="pass pin_memory=False"):
        cpu_storage(10)
    for size in (0, -1, 2**63, 2**70):
        with pytest.raises(ValueError, match=f"^`size` must be from 1 to {2**63 - 1} bytes, got {size}$"):
            cpu_storage(size, pin_memory=False)
    with pytest.raises(TypeError, match=r"^`size` must be an integer, got float$"):
        cpu_storage(2.5, pin_memory=False)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not fit this machine's memory"):
        cpu_storage(1 << 50, pin_memory=False)
