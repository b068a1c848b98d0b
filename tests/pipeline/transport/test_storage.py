"""Test that content which is made in shared memory crosses without a copy, and that the memory comes back."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.pipeline.transport.work import MB, shared_memories

import spdl.io
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess, shared_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)


FORK = multiprocessing.get_context("fork")


def test_shared_storage_is_the_same_memory_in_both_processes() -> None:
    written = FORK.Event()

    def make() -> Iterator[Any]:
        whole = np.frombuffer(shared_storage(MB), np.uint8)
        whole[:] = 1
        copied = np.full(5000, 1, np.uint8)
        yield {"part": whole[1000:100_000], "other": copied}
        yield whole.reshape(1024, 1024)
        assert written.wait(60)
        yield int(whole[1000]), int(whole[-1]), int(copied[0])

    items = iterate_in_subprocess(make, mp_context="fork")
    begun = iter(items)
    first, second = next(begun), next(begun)
    for array, size in ((first["part"], 99_000), (first["other"], 5000), (second, MB)):
        assert array.size == size
        assert (array == 1).all()
    first["part"][0] = 2
    second[-1, -1] = 3
    first["other"][0] = 4
    written.set()
    # The third one was copied.
    assert next(begun) == (2, 3, 1)
    items.close()


def take_in_a_fork() -> Iterator[int]:
    shared_storage(MB)
    pid = os.fork()
    if not pid:
        os._exit(7 if type(shared_storage(MB).obj) is bytearray else 1)
    yield os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_shared_storage_is_memory_of_its_own_in_a_fork_of_a_worker() -> None:
    items = iterate_in_subprocess(take_in_a_fork, mp_context="fork")
    assert list(items) == [7]
    items.close()


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
        yield shared_memories()[0]


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


def test_what_a_killed_worker_has_sent_stays() -> None:
    before = set(multiprocessing.active_children())
    items = iterate_in_subprocess(Made(40, 100_000), buffer_size=4, mp_context="fork")
    (process,) = set(multiprocessing.active_children()) - before
    begun = iter(items)
    kept = [next(begun) for _ in range(4)]
    process.kill()
    with pytest.raises(RuntimeError, match="killed by signal SIGKILL"):
        kept += begun
    for number, array in enumerate(kept):
        assert (array == number).all()
        array[:] = 99
    items.close()


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
