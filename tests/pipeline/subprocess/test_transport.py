"""Test that items of all sizes and types arrive as they were sent, and that large ones are copied once."""

from __future__ import annotations

import io
import os
import random
import socket
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st
from PIL import Image
from tests.pipeline.subprocess.work import Buffers, Given, Measured

import spdl.io
from spdl.pipeline import iterate_in_subprocess

pytestmark = pytest.mark.timeout(120)

MB = 1 << 20


def assert_same(got: Any, sent: Any) -> None:
    assert type(got) is type(sent)
    if isinstance(sent, list | tuple):
        assert len(got) == len(sent)
        for ours, theirs in zip(got, sent, strict=True):
            assert_same(ours, theirs)
    elif isinstance(sent, np.ndarray):
        # Compare bytes, since some values, and records that hold them, do not equal themselves.
        assert got.tobytes() == sent.tobytes()
        assert got.dtype == sent.dtype
        assert got.shape == sent.shape
    else:
        assert got == sent


DTYPES = ["u1", "<i4", ">i4", "<f2", "<f8", ">f8", "c16", "?", "S5", "<U3", "<M8[ns]", "m8[s]"]
LEAVES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=20),
    st.binary(max_size=40),
    # Around the sizes at which content moves from the pipe to the file, and from the pickle to a block of its own.
    st.sampled_from([0, 1, 4000, 4064, 4065, 65_535, 65_536, 200_000]).map(lambda size: b"\x07" * size),
    st.sampled_from([0, 2047, 2048, 70_000]).map(lambda size: bytearray(b"\x09" * size)),
    st.sampled_from([70_000, 70_001]).map(lambda size: "\N{SNOWMAN}" * size),
    np_st.arrays(
        dtype=st.sampled_from(DTYPES).map(np.dtype) | np_st.array_dtypes(max_size=3),
        shape=np_st.array_shapes(min_dims=0, min_side=0, max_side=20),
        fill=None,
    ),
)
ITEMS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner), max_leaves=8)


@given(st.lists(ITEMS, max_size=8), st.sampled_from([1, 2, 3, 17, 300]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_items(sent: list[Any], buffer_size: int) -> None:
    items = iterate_in_subprocess(Given(*sent), buffer_size=buffer_size, mp_context="fork")
    try:
        for _ in range(2):
            assert_same(list(items), sent)
    finally:
        items.close()


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 60))
@settings(max_examples=15, deadline=None)
def test_items_of_any_sizes_do_not_mix(sizes: list[int], buffer_size: int, leave_at: int) -> None:
    """The memory of an item that is kept must not be reused for another one."""
    items = iterate_in_subprocess(Buffers(sizes), buffer_size=buffer_size, mp_context="fork")
    try:
        for i, _, _ in items:
            if i >= leave_at:
                break
        kept = list(items)
    finally:
        items.close()
    assert [i for i, _, _ in kept] == list(range(len(sizes)))
    for size, (i, arrived, content) in zip(sizes, kept, strict=True):
        assert arrived.size == len(content) == size
        assert (arrived == i % 251).all()
        assert content == bytes([i % 251]) * size


def test_arrays_of_all_layouts() -> None:
    block = np.arange(60_000, dtype=np.float32).reshape(30, 40, 50)
    sent = [
        block,
        np.asfortranarray(block),
        block[::2, ::-1],
        block.transpose(1, 2, 0),
        block[3:4, :, :],
        np.broadcast_to(np.float64(3), (100, 100)),
        np.zeros((0, 5)),
        np.array(3.5),
        np.ma.masked_array(np.arange(3000), mask=False),
        np.array([{"a": 1}, None, "x"], dtype=object),
        np.rec.array([(1, 2.0)] * 1000, dtype=[("a", "i8"), ("b", "f8")]),
        np.float32(2.5),
    ]
    got = list(iterate_in_subprocess(Given(*sent), mp_context="fork"))
    for ours, theirs in zip(got, sent, strict=True):
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(ours, theirs)
    assert got[1].flags.f_contiguous


def test_arrays_are_the_receivers_to_change() -> None:
    frozen = np.ones(10_000)
    frozen.flags.writeable = False
    items = iterate_in_subprocess(Given(np.ones(10_000), np.ones(3), frozen), mp_context="fork")
    first = list(items)
    assert [each.flags.writeable for each in first] == [True, True, False]
    first[0][:] = 5
    first[1][:] = 5
    assert [each[0] for each in items] == [1, 1, 1]
    assert first[0][0] == 5


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_multiprocessing_knows_to_share() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        items = iterate_in_subprocess(Given(theirs), mp_context="fork")
        (arrived,) = items
        with arrived:
            arrived.sendall(b"through the other process")
            assert ours.recv(100) == b"through the other process"
        items.close()


def test_decoded_images() -> None:
    photo = io.BytesIO()
    Image.fromarray(np.arange(64 * 48 * 3, dtype=np.uint8).reshape(48, 64, 3)).save(photo, "PNG")

    def load() -> Any:
        buffer = spdl.io.load_image_batch([photo.getvalue()], width=64, height=48, pix_fmt="rgb24")
        yield spdl.io.to_numpy(buffer)
        yield buffer
        yield spdl.io.load_image_batch([photo.getvalue(), b"junk"], width=1024, height=1024, strict=False)

    begun = iter(iterate_in_subprocess(load, mp_context="fork"))
    expected = np.asarray(Image.open(photo))
    np.testing.assert_array_equal(next(begun)[0], expected)
    buffer = next(begun)
    assert isinstance(buffer, spdl.io.CPUBuffer)
    assert (buffer.shape, buffer.dtype, buffer.failures) == ((1, 48, 64, 3), "uint8", ())
    np.testing.assert_array_equal(spdl.io.to_numpy(buffer)[0], expected)
    assert spdl.io.to_numpy(buffer).flags.writeable
    tracemalloc.start()
    large = next(begun)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (large.shape, len(large.failures)) == ((1, 1024, 1024, 3), 1)
    # As with an array, nothing is copied on this side.
    assert peak < large.nbytes // 20


def test_100_megabytes_and_memory_is_given_back() -> None:
    sizes = [100 * MB, 3, 30 * MB]
    items = iterate_in_subprocess(Buffers(sizes), buffer_size=1, mp_context="fork")
    for _ in range(2):
        for size, (i, arrived, content) in zip(sizes, items, strict=True):
            assert arrived.size == len(content) == size
            assert arrived[0] == arrived[-1] == content[0] == content[-1] == i
    # The file has been truncated when a new pass begins.
    begun = iter(items)
    next(begun)
    items.close()


def test_an_array_is_copied_once_by_its_sender() -> None:
    size = 8 * MB
    items = iter(iterate_in_subprocess(Measured(size), mp_context="fork"))
    assert next(items).nbytes == size
    tracemalloc.start()
    arrived = next(items)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert arrived.nbytes == size
    assert peak < size // 50
    # Sending it took far less memory in the worker than its size.
    assert next(items) < size // 50


def test_large_bytes_are_not_copied_into_the_pickle() -> None:
    def give() -> Any:
        content = os.urandom(8 * MB)
        yield content
        tracemalloc.start()
        yield {"content": content}
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield peak

    items = iter(iterate_in_subprocess(give, mp_context="fork"))
    next(items)
    tracemalloc.start()
    arrived = next(items)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(arrived["content"]) == 8 * MB
    assert peak < 8.2 * MB
    assert next(items) < MB // 5


def test_many_tiny_items() -> None:
    drawn = random.Random(3)  # noqa: S311 - nothing here is secret.
    sent = [drawn.randbytes(drawn.randrange(4)) for _ in range(30_000)]
    for buffer_size in (1, 100):
        assert list(iterate_in_subprocess(Given(*sent), buffer_size=buffer_size, mp_context="fork")) == sent
