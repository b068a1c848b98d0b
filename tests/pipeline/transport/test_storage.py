"""Test that content which is made in shared memory crosses without a copy, and that the memory comes back."""

from __future__ import annotations

import gc
import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.pipeline.transport.work import MB, worker

import spdl.io
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess, shared_storage
from spdl.pipeline._transport.signals import PeerGone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline._transport.channel import WorkerEnd

pytestmark = pytest.mark.timeout(120)


def show_what_the_parent_writes(end: WorkerEnd) -> None:
    end.begin()
    whole = np.frombuffer(shared_storage(MB), np.uint8)
    whole[:] = 1
    copied = np.full(5000, 1, np.uint8)
    end.send([{"part": whole[1000:100_000], "other": copied}, whole.reshape(1024, 1024)])
    end.receive()
    end.send([int(whole[1000]), int(whole[-1]), int(copied[0])])
    with suppress(PeerGone):
        end.receive()


def test_both_processes_have_the_same_memory() -> None:
    with worker(show_what_the_parent_writes) as (parent, _):
        first, second = parent.receive(60)
        for array, size in ((first["part"], 99_000), (first["other"], 5000), (second, MB)):
            assert array.size == size
            assert (array == 1).all()
        first["part"][0] = 2
        second[-1, -1] = 3
        first["other"][0] = 4
        parent.send([None])
        # The third one was copied.
        assert parent.receive(60) == [2, 3, 1]


def take_in_a_fork(end: WorkerEnd) -> None:
    end.begin()
    shared_storage(MB)
    pid = os.fork()
    if not pid:
        os._exit(7 if type(shared_storage(MB).obj) is bytearray else 1)
    end.send([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])])
    with suppress(PeerGone):
        end.receive()


def test_a_fork_of_a_worker_takes_memory_of_its_own() -> None:
    with worker(take_in_a_fork) as (parent, _):
        assert parent.receive(60) == [7]


class Made:
    """Arrays that are made in shared memory, and the memory that this took, at the end."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size

    def __call__(self) -> Made:
        return self

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.count):
            array = np.frombuffer(shared_storage(self.size), np.uint8)
            array[:] = number % 251
            yield array
        yield shared_bytes()


def shared_bytes() -> int:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as the system counts them.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:spdl"):  # noqa: PTH115
                return os.stat(f"/proc/self/fd/{name}").st_blocks * 512  # noqa: PTH116
    raise AssertionError("there is no shared memory")


def test_the_memory_comes_back() -> None:
    items = iterate_in_subprocess(Made(400, MB), mp_context="fork")
    found: list[Any] = [it if isinstance(it, int) else (it[0], it[-1], it.size) for it in items]
    *arrays, taken = found
    assert arrays == [(number % 251, number % 251, MB) for number in range(400)]
    assert taken < 40 * MB
    items.close()


def test_what_is_kept_stays() -> None:
    items = iterate_in_subprocess(Made(30, 100_000), mp_context="fork")
    *kept, _ = items
    items.close()
    del items
    gc.collect()
    for number, array in enumerate(kept):
        assert (array == number).all()


def test_leaving_a_pass_gives_the_memory_back() -> None:
    items = iterate_in_subprocess(Made(40, MB), mp_context="fork")
    for _ in range(20):
        for item in items:
            assert item[0] == 0
            break
        del item
    taken = next(it for it in items if isinstance(it, int))
    assert taken < 20 * MB
    items.close()


def decode(photo: bytes) -> Any:
    return spdl.io.to_numpy(
        spdl.io.load_image_batch([photo] * 4, width=64, height=48, storage=shared_storage(4 * 48 * 64 * 3))
    )


def test_decoding_into_shared_memory() -> None:
    pixels = np.arange(64 * 48 * 3, dtype=np.uint8).reshape(48, 64, 3)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    config = PipelineBuilder().add_source([file.getvalue()] * 50).pipe(decode, concurrency=2).add_sink(3).get_config()
    items = run_pipeline_in_subprocess(config, num_threads=2, mp_context="fork")
    kept = list(items)
    items.close()
    assert len(kept) == 50
    for batch in kept:
        for each in batch:
            np.testing.assert_array_equal(each, pixels)


def test_elsewhere_the_memory_is_ordinary() -> None:
    storage = shared_storage(10)
    assert storage.nbytes == 10
    assert not storage.readonly
    with pytest.raises(ValueError, match="size"):
        shared_storage(0)
