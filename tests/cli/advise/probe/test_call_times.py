"""What calls spend their time on."""

from __future__ import annotations

import io
import sys
import time
import zlib
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from tests.delays import tolerates_delays

from spdl.cli._advise._probe.call_times import CallTimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BLOCK = zlib.compress(np.random.default_rng(0).integers(0, 9, 3_000_000, dtype=np.uint8).tobytes(), 1)


def compute() -> None:
    total = 0
    for number in range(400_000):
        total += number * number


def decompress() -> None:
    zlib.decompress(BLOCK)


def nap() -> None:
    time.sleep(0.03)


def watch(*calls: Callable[[], None]) -> CallTimes:
    times = CallTimes()
    assert times.begin(perf_counter())
    for call in calls:
        call()
    times.end()
    assert sys.getprofile() is None
    return times


@tolerates_delays
@pytest.mark.parametrize(("call", "kind"), [(decompress, "decoding"), (nap, "waiting")])
def test_calls_in_c(call: Callable[[], None], kind: str) -> None:
    times = watch(call)
    assert set(times.by_kind) == {kind}
    assert times.by_kind[kind] > 0.8 * times.seconds
    assert times.released > 0.8 * times.seconds


def test_python_code_is_of_no_kind_and_holds_the_gil() -> None:
    times = watch(compute)
    assert times.by_kind == {}
    assert times.seconds > 0.005
    assert times.released < 0.1 * times.seconds


@tolerates_delays
def test_pictures(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((1500, 1500)).save(file)

    def load() -> None:
        with Image.open(file) as image:
            image.load()

    load()
    times = watch(load)
    assert times.by_kind["decoding"] > 0.6 * times.seconds
    assert 0 < times.by_kind["reading"] < times.by_kind["decoding"]
    assert times.released > 0.6 * times.seconds


def test_files_in_memory_are_not_read() -> None:
    def read() -> None:
        for _ in range(20):
            io.BytesIO(BLOCK).read()

    times = watch(read)
    assert times.by_kind == {}


@tolerates_delays
def test_exceptions_end_calls() -> None:
    def fail() -> None:
        with pytest.raises(zlib.error):
            zlib.decompress(b"no")

    times = watch(fail, compute)
    assert times.by_kind.get("decoding", 0.0) < 0.2 * times.seconds


def test_the_cost_of_watching_is_left_out() -> None:
    def nothing() -> None:
        pass

    def call_often() -> None:
        for _ in range(15_000):
            nothing()

    def counted() -> float:
        began = perf_counter()
        return watch(call_often).seconds / (perf_counter() - began)

    assert min(counted() for _ in range(20)) < 0.6


def test_it_ends_after_many_calls() -> None:
    times = CallTimes()
    assert times.begin(perf_counter())
    for _ in range(50_000):
        len("")
        perf_counter()
    assert sys.getprofile() is None
    assert times.seconds > 0
    # The next one is due only later.
    assert not times.begin(perf_counter())


def test_the_profiler_of_others_is_left_alone() -> None:
    def mine(*_: object) -> None:
        pass

    sys.setprofile(mine)
    try:
        times = CallTimes()
        assert not times.begin(perf_counter())
        times.end()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
