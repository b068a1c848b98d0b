"""Items through arenas: what arrives, as what, and what the arenas say of themselves."""

# ruff: noqa: T201 - what it prints is compared.

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from spdl.pipeline import (
    PipelineBuilder,
    SharedMemoryRingBuffer,
    SharedMemorySegmentPool,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)


class Items:
    """Arrays, bytes and small things."""

    def __call__(self) -> Items:
        return self

    def __iter__(self) -> Any:
        for number in range(12):
            yield {
                "number": number,
                "array": np.full((50, 100), number, np.float32),
                "bytes": bytes([number]) * 10_000,
                "bytearray": bytearray([number]) * 10_000,
                "small": b"small",
            }


def described(item: dict[str, Any]) -> str:
    return " ".join(f"{key}={type(value).__name__}" for key, value in item.items())


def twice(array: Any) -> Any:
    return array * 2


def refused(name: str, make: Any) -> None:
    try:
        make()
    except ValueError:
        print(f"{name}: ValueError")
    else:
        print(f"{name}: accepted")


def main() -> None:
    """Print what the program finds."""
    ring = SharedMemoryRingBuffer(1 << 20)
    print(f"ring at first: {ring.capacity} {ring.head} {ring.tail} {isinstance(ring.name, str)}")
    items = iterate_in_subprocess(Items(), arena=ring)
    got = list(items)
    print(f"ring types: {described(got[3])}")
    print(f"ring values: {all((it['array'] == it['number']).all() and it['bytes'][0] == it['number'] for it in got)}")
    print(f"ring again: {[it['number'] for it in items]}")
    print(f"ring moved: {ring.head == ring.tail > 0}")
    del items

    pool = SharedMemorySegmentPool(1 << 16, 16)
    print(f"pool at first: {pool.segment_size} {pool.count} {pool.published} {pool.reclaimed}")
    items = iterate_in_subprocess(Items(), arena=pool)
    got = list(items)
    print(f"pool published: {pool.published} {pool.reclaimed}")
    values = all((it["array"] == it["number"]).all() and bytes(it["bytes"])[0] == it["number"] for it in got)
    print(f"pool values: {values}")
    del got
    gc.collect()
    print(f"pool reclaimed: {pool.reclaimed}")
    print(f"pool again: {[it['number'] for it in items]}")
    kept = next(iter(items))["array"][10:]
    print(f"pool kept: {(kept == 0).all()}")
    del items, kept
    gc.collect()

    config = PipelineBuilder().add_source([np.arange(3000)] * 20).pipe(twice).add_sink(3).get_config()
    arrays = run_pipeline_in_subprocess(config, num_threads=1, arena=SharedMemorySegmentPool(1 << 16, 16))
    print(f"pipeline: {[int(array.sum()) for array in arrays]}")

    full = iter(iterate_in_subprocess(Items(), arena=SharedMemorySegmentPool(1 << 16, 2, acquire_timeout=0.2)))
    kept = [next(full), next(full)]
    try:
        kept.append(next(full))
    except (RuntimeError, BufferError):
        print(f"pool full: an error after {len(kept)}")

    refused("capacity 0", lambda: SharedMemoryRingBuffer(0))
    refused("segment_size 0", lambda: SharedMemorySegmentPool(0, 1))
    refused("count 0", lambda: SharedMemorySegmentPool(1, 0))
    refused("acquire_timeout -1", lambda: SharedMemoryRingBuffer(1, acquire_timeout=-1))


if __name__ == "__main__":
    main()
