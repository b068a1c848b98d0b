"""Traces: what they record of Python's events and of native calls, and that they are whole whatever happens."""

from __future__ import annotations

import datetime as dt
import gc
import logging
import math
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.io.images import make_jpeg
from tests.traces import read

from spdl.io import load_image, load_image_batch
from spdl.io.utils import trace_counter, trace_event, trace_gc, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json.gz"


@pytest.fixture
def watched_collector() -> Iterator[None]:
    before = list(gc.callbacks)
    yield
    gc.callbacks[:] = before


def test_events_nest_on_the_row_of_their_thread(path: Path) -> None:
    def work() -> None:
        with trace_event("in a worker"):
            pass

    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1000
    with tracing(path, process_name="löader"):
        with trace_event("outer"), trace_event("inner"):
            time.sleep(0.002)
        thread = threading.Thread(target=work, name="Wörker 1")
        thread.start()
        thread.join()
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1000
    trace = read(path)
    assert trace.processes == {os.getpid(): "löader"}
    main = trace.row(threading.current_thread().name)
    assert (main.process, main.thread) == (os.getpid(), threading.get_native_id())
    outer, inner = main.pieces
    assert (inner.name, inner.parents, outer.name, outer.parents) == ("inner", ("outer",), "outer", ())
    assert inner.end is not None
    assert outer.end is not None
    # In eighths of microseconds.
    assert before - 0.125 <= outer.begin <= inner.begin < inner.end <= outer.end <= after
    assert inner.end - inner.begin >= 2000
    (event,) = trace.row("Wörker 1").pieces
    assert event.name == "in a worker"
    assert event.end is not None


def test_times_can_be_told_by_the_clock_on_the_wall(path: Path) -> None:
    before = dt.datetime.now(dt.UTC)
    with tracing(path), trace_event("now"):
        pass
    trace = read(path)
    (event,), (label,) = trace.named("now"), trace.labels.values()
    at = dt.datetime.fromisoformat(label.removeprefix("time 0 is ")) + dt.timedelta(microseconds=event.begin)
    second = dt.timedelta(seconds=1)
    assert before - second < at < dt.datetime.now(dt.UTC) + second


def test_native_calls_are_events(path: Path) -> None:
    photo = make_jpeg()
    with tracing(path), trace_event("mine"):
        load_image(photo)
        load_image_batch([photo] * 5, width=8, height=8, num_threads=2)
    trace = read(path)
    for name in ("demux_image", "decode_packets", "convert_frames", "load_image_batch"):
        (event,) = trace.named(name)
        assert event.parents == ("mine",)
    assert {event.parents for event in trace.named("wait for the GIL")} == {("mine",)}
    loads = trace.named("load one image")
    assert len(loads) == 5
    assert {event.parents for event in loads} <= {(), ("mine", "load_image_batch")}


def test_a_thread_that_only_makes_native_calls_has_its_name_in_python(path: Path) -> None:
    with tracing(path), ThreadPoolExecutor(1, thread_name_prefix="decoder") as pool:
        pool.submit(load_image, make_jpeg()).result()
    assert "demux_image" in read(path).row("decoder_0").names()


def test_counters_keep_ints_and_floats(path: Path) -> None:
    with tracing(path):
        trace_counter(0, 1)
        trace_counter(7, 0.5)
        trace_counter(0, -(2**63))
        trace_counter(0, 2**63 - 1)
        for value in (math.inf, -math.inf, math.nan):
            trace_counter(1, value)
    counters = {name: [value for _, value in values] for name, values in read(path).counters.items()}
    # JSON has no such numbers. Programs read them from texts.
    assert counters == {
        "counter 0 value": [1, -(2**63), 2**63 - 1],
        "counter 1 value": ["inf", "-inf", "nan"],
        "counter 7 value": [0.5],
    }


@pytest.mark.parametrize("counter", [-1, 8])
def test_there_are_eight_counters(counter: int) -> None:
    with pytest.raises(RuntimeError, match=rf"^`i` must be the number of a counter, from 0 to 7, got {counter}"):
        trace_counter(counter, 1)


@pytest.mark.usefixtures("watched_collector")
def test_collections_are_events(path: Path) -> None:
    trace_gc()
    trace_gc()
    gc.collect()
    with tracing(path), trace_event("mine"):
        gc.collect(1)
    collections = read(path).named("gc, generation 1")
    assert [event.parents for event in collections] == [("mine",)]


def test_what_was_recorded_is_kept_if_the_body_raises(path: Path) -> None:
    with pytest.raises(KeyError, match="mine"), tracing(path), trace_event("fails"):
        raise KeyError("mine")
    assert read(path).row(threading.current_thread().name).names() == ["fails"]


def test_memory_is_bounded_and_the_latest_is_kept(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spdl.io"), tracing(path, buffer_size=20):
        with trace_event("begun long before"):
            for index in range(5000):
                with trace_event(f"event {index}"):
                    pass
        with trace_event("after"):
            pass
    names = read(path).row(threading.current_thread().name).names()
    assert names == [f"event {index}" for index in range(5000 - len(names) + 1, 5000)] + ["after"]
    # Each takes 32 bytes and the name of 10. At least half of the memory is full.
    assert 20 * 1024 / 42 / 2 - 3 <= len(names) <= 20 * 1024 / 42 + 3
    (record,) = caplog.records
    assert record.getMessage() == (
        f"The trace {path} has the latest events only: more happened than `buffer_size` holds, 20 KiB."
    )


def test_nothing_is_lost_that_fits(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tracing(path):
        for index in range(50_000):
            with trace_event(f"event {index}"):
                pass
    assert read(path).row(threading.current_thread().name).names() == [f"event {index}" for index in range(50_000)]
    assert not caplog.records


def test_all_threads_are_recorded_whole(path: Path) -> None:
    def work() -> None:
        for index in range(2000):
            with trace_event("a"), trace_event("b" * (index % 300)):
                trace_counter(index % 8, index)

    threads = [threading.Thread(target=work, name=f"hammer {index}") for index in range(6)]
    with tracing(path, buffer_size=8192):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = read(path)
    assert all(len(trace.row(thread.name).pieces) == 4000 for thread in threads)
    assert sum(map(len, trace.counters.values())) == 12_000


def test_threads_of_the_same_number_have_rows_of_their_own(path: Path) -> None:
    # The system gives the number of a thread that has ended to another one.
    with tracing(path):
        for index in range(20):
            thread = threading.Thread(target=load_image, args=(make_jpeg(),), name=f"short {index}")
            thread.start()
            thread.join()
    rows = [row for row in read(path).rows.values() if row.name.startswith("short")]
    assert sorted(row.name for row in rows) == sorted(f"short {index}" for index in range(20))
    assert all(row.names().count("decode_packets") == 1 for row in rows)


def test_long_names_are_cut_between_characters(path: Path) -> None:
    name = "é" * 100_000
    with tracing(path), trace_event("x" + name):
        pass
    assert len(read(path).named("x" + "é" * 255)) == 1


def test_an_event_that_outlives_its_trace_is_in_no_other(path: Path, tmp_path: Path) -> None:
    with tracing(path):
        event = trace_event("long")
        event.__enter__()
    other = tmp_path / "other.json"
    with tracing(other):
        event.__exit__(None, None, None)
        with trace_event("short"):
            pass
    assert read(other).row(threading.current_thread().name).names() == ["short"]
    (long,) = read(path).row(threading.current_thread().name).pieces
    assert (long.name, long.end) == ("long", None)


def test_nothing_happens_without_a_trace(path: Path) -> None:
    with tracing(path, enable=False) as first, trace_event("x") as second:
        trace_counter(0, 1)
    assert not path.exists()
    assert first is second is None
    with pytest.raises(KeyError, match="passes"), trace_event("x"):
        raise KeyError("passes")


def test_there_is_one_trace_at_a_time(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with tracing(path):
        message = rf"being traced already, into {re.escape(repr(str(path)))}"
        with pytest.raises(RuntimeError, match=message), tracing(other):
            pass
        with trace_event("goes on"):
            pass
    assert not other.exists()
    assert len(read(path).named("goes on")) == 1


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no_such"), tracing(tmp_path / "no_such" / "trace"):
        pass
    with tracing(tmp_path / "trace"):
        pass


def test_a_full_disk_is_an_error_at_the_end() -> None:
    events = ExitStack()
    events.enter_context(tracing("/dev/full"))
    events.enter_context(trace_event("x"))
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        events.close()


def test_what_the_body_raises_is_not_about_the_trace(path: Path) -> None:
    with pytest.raises(OSError, match="of its own") as raised, tracing(path):
        raise OSError(5, "of its own")
    assert raised.value.filename is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"output": 3}, TypeError, r"^`output` must be a path"),
        ({"buffer_size": 0}, ValueError, r"^`buffer_size` must be"),
        ({"buffer_size": "4096"}, TypeError, r"^`buffer_size` must be"),
        ({"process_name": 1}, TypeError, r"^`process_name` must be a str"),
    ],
)
def test_arguments_are_checked(path: Path, arguments: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message), tracing(**({"output": path} | arguments)):  # type: ignore[arg-type]
        pass
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_writes_nothing_and_can_have_its_own(path: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from spdl.io.utils import trace_event, tracing\n"
        "with tracing(sys.argv[1]):\n"
        "    with trace_event('before'):\n"
        "        pass\n"
        "    if os.fork() == 0:\n"
        "        with trace_event('not here'):\n"
        "            pass\n"
        "        with tracing(sys.argv[2]), trace_event('child'):\n"
        "            pass\n"
        "        sys.exit()\n"
        "    assert os.wait()[1] == 0\n"
        "    with trace_event('after'):\n"
        "        pass\n"
    )
    other = tmp_path / "child.json"
    subprocess.run([sys.executable, "-c", program, str(path), str(other)], check=True)
    trace = read(path)
    assert [row.names() for row in trace.rows.values()] == [["before", "after"]]
    child = read(other)
    assert child.processes.keys() != trace.processes.keys()
    (row,) = child.rows.values()
    assert (row.thread, row.names()) == (row.process, ["child"])
