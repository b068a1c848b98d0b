"""transfer_buffer and transfer_buffer_cpu, and the memory that they use."""

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cuda_driver import VARIABLE, FakeDriver
from tests.io.images import encode, make_image, make_jpeg
from tests.io.inside import buffer_of

from spdl.io import (
    CPUBuffer,
    CUDAArrayInterface,
    CUDABuffer,
    convert_frames,
    cpu_storage,
    cuda_config,
    decode_packets,
    demux_image,
    load_image,
    load_image_batch,
    to_numpy,
    transfer_buffer,
    transfer_buffer_cpu,
)

CHUNK = 2 << 20
"""The size of a copy from memory that is not pinned. The sizes here lie around its multiples."""


def make_buffer(*shape: int, dtype: str = "uint8", seed: int = 0) -> CPUBuffer:
    rng = np.random.default_rng(seed)
    content = rng.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    return buffer_of(content.view(dtype).reshape(shape))


def bytes_of(buffer: CPUBuffer) -> bytes:
    return to_numpy(buffer).tobytes()


def device_bytes(buffer: CUDABuffer) -> bytes:
    """Read the fake GPU's memory."""
    return ctypes.string_at(buffer.__cuda_array_interface__["data"][0], buffer.nbytes)


def pinned_image(storage: Any, seed: int = 0) -> CPUBuffer:
    return convert_frames([decode_packets(demux_image(encode(make_image(40, 30, seed), "PNG")))], storage)


# ---- what arrives ----------------------------------------------------------------------------------------------


def test_the_array_on_the_gpu_describes_itself(fake_cuda: FakeDriver) -> None:
    buffer = load_image(make_jpeg(40, 30))
    there = transfer_buffer(buffer, cuda_config=cuda_config(0, 7))
    assert isinstance(there, CUDABuffer)
    assert isinstance(there, CUDAArrayInterface)
    assert (there.shape, there.ndim, there.nbytes, there.dtype, len(there)) == ((30, 40, 3), 3, 3600, "uint8", 30)
    assert there.device_index == 0
    assert repr(there) == "CUDABuffer(shape=(30, 40, 3), dtype=uint8, device_index=0)"
    interface = there.__cuda_array_interface__
    address, read_only = interface.pop("data")
    assert address > 0
    assert read_only is False
    assert interface == {"version": 3, "shape": (30, 40, 3), "typestr": "|u1", "strides": None, "stream": None}
    assert device_bytes(there) == bytes_of(buffer)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([1, 3, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5, 3 * CHUNK, 5 * CHUNK + 1]),
    st.sampled_from(["uint8", "uint16", "float16", "float32"]),
)
def test_every_byte_goes_there_and_back(fake_cuda: FakeDriver, size: int, dtype: str) -> None:
    buffer = make_buffer(size, dtype=dtype)
    there = transfer_buffer(buffer, device_config=cuda_config(0))
    assert there.dtype == dtype
    assert there.__cuda_array_interface__["typestr"] == buffer.__array_interface__["typestr"]
    assert device_bytes(there) == bytes_of(buffer)
    back = transfer_buffer_cpu(there)
    assert (back.shape, back.dtype) == (buffer.shape, dtype)
    assert bytes_of(back) == bytes_of(buffer)


def test_an_empty_array_goes_there_and_back(fake_cuda: FakeDriver) -> None:
    there = transfer_buffer(make_buffer(0, 3), cuda_config=cuda_config(0))
    assert transfer_buffer_cpu(there).shape == (0, 3)


def test_copies_take_their_time_and_have_arrived_when_the_call_returns(fake_cuda: FakeDriver) -> None:
    fake_cuda.set_latency(0.02)
    buffer = make_buffer(5 * CHUNK)
    there = transfer_buffer(buffer, cuda_config=cuda_config(0))
    assert fake_cuda.copies_under_way == 0
    assert device_bytes(there) == bytes_of(buffer)
    assert bytes_of(transfer_buffer_cpu(there)) == bytes_of(buffer)
    # Two at a time: one is filled while the other is copied.
    assert fake_cuda.calls("cuMemcpyHtoDAsync_v2") == 5


def test_threads_transfer_at_once_each_on_its_stream(fake_cuda: FakeDriver) -> None:
    fake_cuda.set_latency(0.001)
    storage = cpu_storage(3600)

    def work(stream: int) -> None:
        config = cuda_config(0, stream)
        for turn in range(10):
            buffer = make_buffer(CHUNK + turn, seed=stream) if turn % 2 else pinned_image(storage, stream)
            there = transfer_buffer(buffer, cuda_config=config)
            assert device_bytes(there) == bytes_of(buffer)
            assert bytes_of(transfer_buffer_cpu(there)) == bytes_of(buffer)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_images_are_loaded_to_the_gpu(fake_cuda: FakeDriver) -> None:
    config = cuda_config(0, 7)
    jpeg = make_jpeg(40, 30)
    there = load_image(jpeg, device_config=config)
    assert device_bytes(there) == bytes_of(load_image(jpeg))
    inputs = [jpeg, b"broken", encode(make_image(9, 9), "PNG")]
    form: Any = {"width": 20, "height": 10, "layout": "NCHW", "dtype": "float16", "strict": False}
    storage = cpu_storage(3 * 3 * 10 * 20 * 2)
    before, expected = fake_cuda.pinned_blocks, load_image_batch(inputs, **form)
    for _ in range(3):
        batch = load_image_batch(inputs, device_config=config, storage=storage, **form)
        assert isinstance(batch, CUDABuffer)
        assert (batch.shape, batch.dtype) == ((2, 3, 10, 20), "float16")
        assert device_bytes(batch) == bytes_of(expected)
    assert fake_cuda.pinned_blocks == before


def test_what_failed_is_told_on_the_gpu_and_after(fake_cuda: FakeDriver) -> None:
    class Image(bytes):
        batch: CUDABuffer
        life: object

    class Life:
        pass

    broken = Image(b"broken")
    here = load_image_batch([make_jpeg(), broken], width=20, height=10, on_error="zero")
    there = transfer_buffer(here, cuda_config=cuda_config(0))
    for buffer in (here, there, transfer_buffer_cpu(there)):
        assert [failure.index for failure in buffer.failures] == [1]
        assert buffer.backends == ("libjpeg-turbo", "")
    # The input of a failure may lead back to the array.
    broken.batch, broken.life = there, Life()
    gone = weakref.ref(broken.life)
    del broken, here, there, buffer
    gc.collect()
    assert gone() is None


# ---- whose memory ----------------------------------------------------------------------------------------------


def test_a_pinned_storage_is_read_by_the_gpu_itself(fake_cuda: FakeDriver) -> None:
    storage = cpu_storage(3600)
    assert repr(storage) == "CPUStorage(3600 bytes, pinned)"
    config = cuda_config(0)
    before = fake_cuda.pinned_blocks
    for seed in range(20):
        buffer = pinned_image(storage, seed)
        assert device_bytes(transfer_buffer(buffer, cuda_config=config)) == bytes_of(buffer)
        del buffer
    assert fake_cuda.calls("cuMemcpyHtoDAsync_v2") == 20
    assert fake_cuda.pinned_blocks == before


def test_pinned_memory_goes_back_with_the_storage_and_its_last_array(fake_cuda: FakeDriver) -> None:
    before = fake_cuda.pinned_blocks
    storage = cpu_storage(3600)
    arrays = [to_numpy(pinned_image(storage, seed)) for seed in range(3)]
    assert fake_cuda.pinned_blocks == before + 3
    del storage
    assert fake_cuda.pinned_blocks == before + 3
    np.testing.assert_array_equal(arrays[2][0], np.asarray(make_image(40, 30, 2)))
    arrays.clear()
    assert fake_cuda.pinned_blocks == before


def test_other_memory_goes_through_chunks_that_are_used_again(fake_cuda: FakeDriver) -> None:
    config = cuda_config(0)
    transfer_buffer(make_buffer(5 * CHUNK), cuda_config=config)
    before, allocations = fake_cuda.pinned_blocks, fake_cuda.calls("cuMemHostAlloc")
    for _ in range(5):
        transfer_buffer_cpu(transfer_buffer(make_buffer(5 * CHUNK), cuda_config=config))
    assert fake_cuda.pinned_blocks == before
    assert fake_cuda.calls("cuMemHostAlloc") == allocations


def test_memory_on_the_gpu_lives_as_long_as_any_view(fake_cuda: FakeDriver) -> None:
    there = transfer_buffer(make_buffer(10), cuda_config=cuda_config(0))
    capsules = [there.__dlpack__(), there.__dlpack__(stream=1), there.__dlpack__(stream=None, max_version=(1, 0))]
    assert tuple(there.__dlpack_device__()) == (2, 0)
    del there
    gc.collect()
    assert fake_cuda.device_blocks == 1
    capsules.clear()
    gc.collect()
    assert fake_cuda.device_blocks == 0


def test_a_gpu_without_memory_pools_works_too(fake_cuda: FakeDriver) -> None:
    fake_cuda.set_devices(2)
    fake_cuda.set_pools(supported=False)
    try:
        buffer = make_buffer(100)
        there = transfer_buffer(buffer, cuda_config=cuda_config(1))
    finally:
        fake_cuda.set_pools(supported=True)
    assert there.device_index == 1
    assert tuple(there.__dlpack_device__()) == (2, 1)
    assert device_bytes(there) == bytes_of(buffer)
    assert fake_cuda.calls("cuMemAlloc_v2") == 1
    del there
    assert fake_cuda.calls("cuMemFree_v2") == 1


# ---- an allocator of the user's --------------------------------------------------------------------------------


class Arena:
    """Memory as PyTorch's caching allocator gives it out."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.asked: list[tuple[int, int, int]] = []

    def allocate(self, size: int, device: int, stream: int) -> int:
        self.asked.append((size, device, stream))
        block = ctypes.create_string_buffer(size)
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, address: int) -> None:
        del self.blocks[address]


def test_an_allocator_is_asked_for_memory_and_gets_it_back(fake_cuda: FakeDriver) -> None:
    arena = Arena()
    config = cuda_config(0, 9, (arena.allocate, arena.free))
    buffer = make_buffer(10, 3, dtype="float32")
    there = transfer_buffer(buffer, cuda_config=config)
    assert arena.asked == [(120, 0, 9)]
    assert list(arena.blocks) == [there.__cuda_array_interface__["data"][0]]
    assert device_bytes(there) == bytes_of(buffer)
    capsule = there.__dlpack__()
    del there
    assert len(arena.blocks) == 1
    del capsule
    assert arena.blocks == {}


def test_a_failed_copy_gives_the_allocators_memory_back(fake_cuda: FakeDriver) -> None:
    arena = Arena()
    fake_cuda.fail("cuMemcpyHtoDAsync_v2", 700)
    with pytest.raises(RuntimeError, match="cuMemcpyHtoDAsync returned CUDA_ERROR_ILLEGAL_ADDRESS"):
        transfer_buffer(make_buffer(10), cuda_config=cuda_config(0, 9, (arena.allocate, arena.free)))
    assert len(arena.asked) == 1
    assert arena.blocks == {}


@pytest.mark.parametrize("address", [None, 0, -1, "x", 2**70])
def test_what_is_no_address_is_named(fake_cuda: FakeDriver, address: Any) -> None:
    config = cuda_config(0, 9, (lambda *_: address, print))
    with pytest.raises(TypeError, match=f"the allocator must return the address of 10 bytes.*got {address!r}$"):
        transfer_buffer(make_buffer(10), cuda_config=config)


def test_what_an_allocator_raises_comes_out(fake_cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise KeyError("no room")

    with pytest.raises(KeyError, match="no room"):
        transfer_buffer(make_buffer(10), cuda_config=cuda_config(0, 9, (fail, print)))
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    block = ctypes.create_string_buffer(10)
    there = transfer_buffer(make_buffer(10), cuda_config=cuda_config(0, 9, (lambda *_: ctypes.addressof(block), fail)))
    del there
    assert [type(caught.exc_value) for caught in unraisable] == [KeyError]
    unraisable.clear()


# ---- what goes wrong -------------------------------------------------------------------------------------------

H2D = ["cuCtxPushCurrent_v2", "cuMemAllocFromPoolAsync", "cuEventCreate", "cuMemcpyHtoDAsync_v2", "cuEventRecord"]
D2H = ["cuCtxPushCurrent_v2", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyDtoHAsync_v2"]


@pytest.mark.parametrize("call", [*H2D, "cuEventSynchronize"])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_every_status_on_the_way_there_is_checked(fake_cuda: FakeDriver, call: str, after: int, memory: str) -> None:
    check_statuses(fake_cuda, call, after, pinned=memory == "pinned", back=False)


@pytest.mark.parametrize("call", [*D2H, "cuEventSynchronize"])
@pytest.mark.parametrize("after", [0, 1])
def test_every_status_on_the_way_back_is_checked(fake_cuda: FakeDriver, call: str, after: int) -> None:
    check_statuses(fake_cuda, call, after, pinned=False, back=True)


def check_statuses(fake_cuda: FakeDriver, call: str, after: int, *, pinned: bool, back: bool) -> None:
    config = cuda_config(0)
    storage = cpu_storage(3600)
    buffer = pinned_image(storage) if pinned else make_buffer(4 * CHUNK)
    there = transfer_buffer(buffer, cuda_config=config)

    def act() -> object:
        return transfer_buffer_cpu(there) if back else transfer_buffer(buffer, cuda_config=config)

    fake_cuda.set_latency(0.005)
    before = fake_cuda.calls(call)
    act()
    made = fake_cuda.calls(call) - before
    fake_cuda.fail(call, 2, min(after, made - 1))
    plain = call.removesuffix("_v2")
    with pytest.raises(
        RuntimeError, match=rf"failed: {plain} returned CUDA_ERROR_OUT_OF_MEMORY \(out of memory\): use"
    ):
        act()
    # Nothing is lost, nothing is still under way, and the next one works.
    assert (fake_cuda.copies_under_way, fake_cuda.events) == (0, 0)
    assert fake_cuda.device_blocks == 1
    fake_cuda.set_latency(0)
    again = transfer_buffer_cpu(transfer_buffer(buffer, cuda_config=config))
    assert bytes_of(again) == bytes_of(buffer)


def test_memory_that_a_lost_copy_may_still_read_is_never_used_again(fake_cuda: FakeDriver) -> None:
    storage = cpu_storage(3600)
    buffer = pinned_image(storage)
    address = to_numpy(buffer).ctypes.data
    fake_cuda.fail("cuEventSynchronize", 700)
    fake_cuda.fail("cuStreamSynchronize", 700)
    with pytest.raises(RuntimeError, match="CUDA_LAUNCH_BLOCKING=1"):
        transfer_buffer(buffer, cuda_config=cuda_config(0, 1))
    assert fake_cuda.copies_under_way == 1
    del buffer
    assert to_numpy(pinned_image(storage, 1)).ctypes.data != address
    # The fake's own books: the copy went to memory that is free by now.
    fake_cuda.forget_copies()


def test_errors_name_the_transfer_and_the_remedy(fake_cuda: FakeDriver) -> None:
    fake_cuda.fail("cuEventRecord", 400)
    with pytest.raises(
        RuntimeError,
        match=r"^the transfer to GPU 0 of 10 bytes failed: cuEventRecord returned CUDA_ERROR_INVALID_HANDLE "
        r"\(what the driver says\): `stream` must be the handle of a stream of the same device that still exists",
    ):
        transfer_buffer(make_buffer(10), cuda_config=cuda_config(0, 9))
    fake_cuda.fail("cuMemAllocFromPoolAsync", 12345)
    with pytest.raises(RuntimeError, match=r"allocating 10 bytes on GPU 0 failed: .* returned CUDA error 12345$"):
        transfer_buffer(make_buffer(10), cuda_config=cuda_config(0))
    fake_cuda.fail("cuMemHostAlloc", 2)
    with pytest.raises(RuntimeError, match=r"^pinning 999 bytes of main memory failed: cuMemHostAlloc returned .*MEM"):
        cpu_storage(999)


def test_wrong_arguments_are_named(fake_cuda: FakeDriver) -> None:
    buffer, config = make_buffer(10), cuda_config(0)
    wrong: Any = transfer_buffer
    with pytest.raises(TypeError, match=r"^`device_config` must be a CUDAConfig, as .*got None "):
        wrong(buffer)
    with pytest.raises(TypeError, match=r"^`cuda_config` must be None with `device_config`.*, got CUDAConfig"):
        wrong(buffer, cuda_config=config, device_config=config)
    with pytest.raises(TypeError, match=r"^`device_config` must be a CUDAConfig.*got 0 "):
        wrong(buffer, device_config=0)
    with pytest.raises(TypeError, match=r"^`buffer` must be a CPUBuffer, as `convert_frames` returns, got array"):
        wrong(to_numpy(buffer), cuda_config=config)
    with pytest.raises(TypeError, match=r"^`buffer` must be a CUDABuffer.*got CPUBuffer"):
        transfer_buffer_cpu(buffer)  # type: ignore[arg-type]


# ---- processes -------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from spdl.io import cpu_storage, cuda_config
storage = cpu_storage(100)
if os.fork() == 0:
    try:
        cuda_config(0)
    except RuntimeError as error:
        print(error, flush=True)
    del storage
    os._exit(0)
print(os.wait()[1])
"""

RANK = """
import ctypes, os
fake = ctypes.CDLL(os.environ["SPDL_TEST_CUDA_DRIVER"])
fake.fake_set_devices(4)
from spdl.io import cpu_storage
cpu_storage(100)
print([fake.fake_active(device) for device in range(4)])
"""


OTHERS_CONTEXT = """
import ctypes, os
fake = ctypes.CDLL(os.environ["SPDL_TEST_CUDA_DRIVER"])
fake.fake_set_devices(3)
theirs = ctypes.c_void_p(4096)
assert fake.cuCtxPushCurrent_v2(theirs) == 0
from spdl.io import cpu_storage
cpu_storage(100)
print([fake.fake_active(device) for device in range(3)], fake.fake_mistakes())
"""

FORKED_STORAGE = """
import os
from spdl.io import convert_frames, cpu_storage, decode_packets, demux_image, to_numpy
frames = decode_packets(demux_image({image!r}), None)
storage = cpu_storage(20000, pin_memory={pinned})
convert_frames(frames.clone(), storage)
if os.fork() == 0:
    try:
        array = to_numpy(convert_frames(frames.clone(), storage))
        print(array.shape, flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
print(os.wait()[1], convert_frames(frames, storage).shape)
"""


def run(program: str, driver: object, **environment: str) -> str:
    environment = {**os.environ, VARIABLE: str(driver), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_forked_child_says_why_it_has_no_gpu(fake_cuda: FakeDriver) -> None:
    printed = run(FORK, fake_cuda.path)
    assert "CUDA was used in this process's parent before the fork" in printed
    assert "forkserver" in printed
    assert printed.endswith("\n0\n")


@pytest.mark.parametrize(("rank", "active"), [("2", [0, 0, 1, 0]), ("7", [1, 0, 0, 0]), ("x", [1, 0, 0, 0])])
def test_pinned_memory_opens_the_gpu_of_this_rank(fake_cuda: FakeDriver, rank: str, active: list[int]) -> None:
    assert run(RANK, fake_cuda.path, LOCAL_RANK=rank) == f"{active}\n"


def test_pinned_memory_belongs_to_no_context_of_another_librarys(fake_cuda: FakeDriver) -> None:
    assert run(OTHERS_CONTEXT, fake_cuda.path) == "[0, 0, 1] 0\n"


def test_a_forked_child_is_given_no_memory_of_its_parents(fake_cuda: FakeDriver) -> None:
    image = encode(make_image(40, 30), "PNG")
    child, parent = run(FORKED_STORAGE.format(image=image, pinned=True), fake_cuda.path).splitlines()
    assert "CUDA was used in this process's parent before the fork" in child
    assert parent == "0 (30, 40, 3)"
    printed = run(FORKED_STORAGE.format(image=image, pinned=False), fake_cuda.path)
    assert printed == "(30, 40, 3)\n0 (30, 40, 3)\n"
