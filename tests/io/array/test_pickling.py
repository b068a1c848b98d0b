"""Pickled buffers: they arrive unchanged, and by protocol 5 they need not be copied."""

import copy
import multiprocessing
import pickle
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.io.images import make_jpeg

import spdl.io
from spdl.io import CPUBuffer, load_image, load_image_batch, to_numpy


def gray16() -> CPUBuffer:
    return load_image_batch([make_jpeg(20, 10)], width=20, height=10, pix_fmt="gray16le")


def tensor() -> CPUBuffer:
    """One with elements of four bytes, which only pickles make yet."""
    array = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    restore, _ = load_image(make_jpeg(4, 4)).__reduce_ex__(4)
    buffer: CPUBuffer = restore(array.tobytes(), array.shape, "float32", ())
    np.testing.assert_array_equal(to_numpy(buffer), array)
    return buffer


def with_failures() -> CPUBuffer:
    return load_image_batch([make_jpeg(40, 30), b"junk"], width=32, height=24, strict=False)


def unpickled(pickled: bytes, buffers: Any = ()) -> Any:
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301 - pickled here.


BUFFERS = [lambda: load_image(make_jpeg(40, 30)), gray16, tensor, with_failures]


def assert_same(arrived: Any, sent: CPUBuffer) -> None:
    assert isinstance(arrived, CPUBuffer)
    assert (arrived.shape, arrived.dtype, arrived.failures) == (sent.shape, sent.dtype, sent.failures)
    np.testing.assert_array_equal(to_numpy(arrived), to_numpy(sent))
    assert to_numpy(arrived).flags.writeable


@pytest.mark.parametrize("make", BUFFERS)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_round_trip(make: Any, protocol: int) -> None:
    sent = make()
    arrived = unpickled(pickle.dumps(sent, protocol))
    assert_same(arrived, sent)
    # It has memory of its own.
    before = to_numpy(sent).copy()
    to_numpy(arrived)[...] = 0
    np.testing.assert_array_equal(to_numpy(sent), before)


@pytest.mark.parametrize("make", BUFFERS)
def test_the_content_travels_out_of_band(make: Any) -> None:
    sent = make()
    apart: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(sent, 5, buffer_callback=apart.append)
    assert [buffer.raw().nbytes for buffer in apart] == [sent.nbytes]
    assert len(pickled) < 500
    memory = bytearray(apart[0].raw())
    arrived = unpickled(pickled, buffers=[memory])
    assert_same(arrived, sent)
    # In place, and the memory lives as long as the buffer or a view of it.
    assert arrived.__array_interface__["data"][0] == np.frombuffer(memory, np.uint8).ctypes.data
    view = to_numpy(arrived)
    expected = view.copy()
    del memory, arrived
    churn = [bytearray(sent.nbytes) for _ in range(8)]
    assert len(churn) == 8
    np.testing.assert_array_equal(view, expected)


def test_content_that_cannot_be_written_to_or_lies_oddly_is_copied() -> None:
    sent = gray16()
    apart: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(sent, 5, buffer_callback=apart.append)
    content = bytes(apart[0].raw())
    assert_same(unpickled(pickled, buffers=[content]), sent)
    odd = memoryview(bytearray(b"\0" + content))[1:]
    assert_same(unpickled(pickled, buffers=[odd]), sent)


def test_nothing_large_is_allocated() -> None:
    size = 4 << 20
    storage = spdl.io.cpu_storage(size, pin_memory=False)
    side = 1024
    sent = load_image_batch([make_jpeg(40, 30)], width=side, height=side, storage=storage)
    apart: list[pickle.PickleBuffer] = []
    tracemalloc.start()
    pickled = pickle.dumps(sent, 5, buffer_callback=apart.append)
    arrived = unpickled(pickled, buffers=apart)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent.nbytes == 3 * side * side
    assert peak < 50_000
    # Nor outside Python: it is the same memory.
    assert arrived.__array_interface__["data"] == sent.__array_interface__["data"]


@pytest.mark.parametrize("content", [b"", b"\0" * 3599, b"\0" * 3601])
def test_damage_is_told(content: bytes) -> None:
    pickled = pickle.dumps(load_image(make_jpeg(40, 30)), 5, buffer_callback=lambda _: False)
    with pytest.raises(ValueError, match=rf"of this shape .* has 3600 bytes, got {len(content)}"):
        unpickled(pickled, buffers=[content])
    with pytest.raises(TypeError, match="bytes-like"):
        unpickled(pickled, buffers=[3])
    restore, (pixels, shape, _, failures) = load_image(make_jpeg(40, 30)).__reduce_ex__(4)
    with pytest.raises(ValueError, match='no CPUBuffer of dtype "int8"'):
        restore(pixels, shape, "int8", failures)
    with pytest.raises(ValueError, match="has too many bytes"):
        restore(pixels, (1 << 40, 1 << 40), "uint8", failures)


def test_copies() -> None:
    sent = with_failures()
    for arrived in (copy.copy(sent), copy.deepcopy(sent)):
        assert_same(arrived, sent)
        assert arrived.__array_interface__["data"] != sent.__array_interface__["data"]


@pytest.mark.timeout(120)
def test_through_a_pool_of_processes() -> None:
    sent = with_failures()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert_same(executor.submit(copy.copy, sent).result(), sent)
