"""Tests that need a GPU. The logic is tested without one in test_transfer.py."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tests.io.images import encode, make_image
from tests.io.inside import buffer_of

from spdl.io import (
    CPUBuffer,
    convert_frames,
    cpu_storage,
    cuda_config,
    decode_packets,
    demux_image,
    load_image,
    load_image_batch,
    to_jax,
    to_numba,
    to_numpy,
    to_torch,
    transfer_buffer,
    transfer_buffer_cpu,
)

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.cuda

CHUNK = 2 << 20
LONG = 2_000_000_000
"""Clock cycles of a GPU, about a second."""


def make_buffer(*shape: int, dtype: str = "uint8", seed: int = 0) -> CPUBuffer:
    content = np.random.default_rng(seed).integers(0, 127, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    return buffer_of(content.view(dtype).reshape(shape))


def own_stream() -> Any:
    return torch.cuda.Stream(device=0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("size", [1, 4096, CHUNK, CHUNK + 1, 7 * CHUNK + 5])
def test_every_byte_goes_there_and_back(size: int, dtype: str) -> None:
    buffer = make_buffer(size, dtype=dtype)
    there = transfer_buffer(buffer, cuda_config=cuda_config(0))
    tensor = to_torch(there)
    assert str(tensor.device) == "cuda:0"
    assert tensor.data_ptr() == there.__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(tensor.cpu().numpy(), to_numpy(buffer))
    np.testing.assert_array_equal(to_numpy(transfer_buffer_cpu(there)), to_numpy(buffer))


def test_pinned_memory_is_known_to_be_so_and_used_again() -> None:
    storage = cpu_storage(40 * 30 * 3)
    config = cuda_config(0, own_stream().cuda_stream)
    places = set()
    for seed in range(20):
        image = make_image(40, 30, seed)
        buffer = convert_frames([decode_packets(demux_image(encode(image, "PNG")))], storage)
        places.add(to_numpy(buffer).ctypes.data)
        assert to_torch(buffer).is_pinned()
        sent = to_torch(transfer_buffer(buffer, cuda_config=config))
        del buffer
        np.testing.assert_array_equal(sent[0].cpu().numpy(), np.asarray(image))
    assert len(places) == 1


def test_a_stream_of_its_own_does_not_wait_for_the_default_one() -> None:
    stream = own_stream()
    config = cuda_config(0, stream.cuda_stream)
    transfer_buffer(make_buffer(10 * CHUNK), cuda_config=config)
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG)
    busy = torch.cuda.Event()
    busy.record()
    there = transfer_buffer(make_buffer(10 * CHUNK, seed=1), cuda_config=config)
    assert not busy.query()
    del there
    assert not busy.query()
    torch.cuda.synchronize()


def test_memory_that_queued_work_will_read_is_not_given_to_the_next_transfer() -> None:
    config = cuda_config(0, own_stream().cuda_stream)
    buffers = [make_buffer(4 * CHUNK, seed=seed) for seed in range(6)]
    torch.cuda.synchronize()
    sent = to_torch(transfer_buffer(buffers[0], cuda_config=config))
    torch.cuda._sleep(LONG)
    late = sent.clone()
    del sent
    others = [to_torch(transfer_buffer(buffer, cuda_config=config)) for buffer in buffers[1:]]
    np.testing.assert_array_equal(late.cpu().numpy(), to_numpy(buffers[0]))
    for other, buffer in zip(others, buffers[1:], strict=True):
        np.testing.assert_array_equal(other.cpu().numpy(), to_numpy(buffer))


def test_what_a_kernel_wrote_comes_back() -> None:
    there = transfer_buffer(make_buffer(4 * CHUNK), cuda_config=cuda_config(0, own_stream().cuda_stream))
    tensor = to_torch(there)
    expected = tensor.cpu().numpy() + 1
    torch.cuda._sleep(LONG // 4)
    tensor += 1
    np.testing.assert_array_equal(to_numpy(transfer_buffer_cpu(there)), expected)


def test_threads_transfer_at_once() -> None:
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        config = cuda_config(0, own_stream().cuda_stream)
        barrier.wait()
        for turn in range(20):
            buffer = make_buffer(CHUNK + 1000 * turn + seed, seed=seed)
            sent = to_torch(transfer_buffer(buffer, cuda_config=config))
            np.testing.assert_array_equal(sent.cpu().numpy(), to_numpy(buffer))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_memory_is_used_again() -> None:
    config = cuda_config(0, own_stream().cuda_stream)
    buffer = make_buffer(32 * CHUNK)
    for _ in range(3):
        transfer_buffer(buffer, cuda_config=config)
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info(0)
    for _ in range(100):
        transfer_buffer(buffer, cuda_config=config)
    torch.cuda.synchronize()
    after, _ = torch.cuda.mem_get_info(0)
    assert before - after < 4 * 32 * CHUNK


def test_pytorchs_own_cache_lends_the_memory() -> None:
    allocator = (torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete)
    config = cuda_config(0, torch.cuda.current_stream(0).cuda_stream, allocator)
    before = torch.cuda.memory_allocated(0)
    buffer = make_buffer(4 * CHUNK)
    sent = to_torch(transfer_buffer(buffer, cuda_config=config))
    assert torch.cuda.memory_allocated(0) >= before + 4 * CHUNK
    np.testing.assert_array_equal(sent.cpu().numpy(), to_numpy(buffer))
    del sent
    assert torch.cuda.memory_allocated(0) == before


def test_numba_jax_and_cupy_see_the_same_memory() -> None:
    buffer = make_buffer(30, 40, dtype="float32")
    there = transfer_buffer(buffer, cuda_config=cuda_config(0))
    address = there.__cuda_array_interface__["data"][0]
    seen = 0
    views: list[tuple[Any, Any]] = [
        (to_numba, lambda array: int(array.device_ctypes_pointer.value)),
        (to_jax, lambda array: int(array.unsafe_buffer_pointer())),
        (lambda buffer: import_module("cupy").from_dlpack(buffer), lambda array: int(array.data.ptr)),
    ]
    for view, pointer in views:
        try:
            array = view(there)
        except (ImportError, RuntimeError):  # Not here, or without support for this GPU.
            continue
        assert pointer(array) == address
        seen += 1
    if not seen:
        pytest.skip("needs Numba, JAX or CuPy, built for CUDA")


def test_images_are_loaded_to_the_gpu() -> None:
    config = cuda_config(0, own_stream().cuda_stream)
    data = encode(make_image(40, 30), "JPEG")
    there = to_torch(load_image(data, device_config=config))
    np.testing.assert_array_equal(there.cpu().numpy(), to_numpy(load_image(data)))
    batch = load_image_batch([data] * 3, width=20, height=10, device_config=config, storage=cpu_storage(1800))
    expected = to_numpy(load_image_batch([data] * 3, width=20, height=10))
    np.testing.assert_array_equal(to_torch(batch).cpu().numpy(), expected)


def test_a_gpu_that_is_not_there_is_named() -> None:
    count = torch.cuda.device_count()
    with pytest.raises(ValueError, match=f"`device_index` must be less than {count}, the number of GPUs"):
        cuda_config(count)
