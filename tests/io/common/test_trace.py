"""Traces: what they record of Python's events and of native calls, and that they are whole whatever happens."""

from __future__ import annotations

import gc
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
from tests.io import perfetto_traces
from tests.io.images import make_jpeg
from tests.io.processes import ROOT

from spdl.io import load_image, load_image_batch
from spdl.io.utils import trace_counter, trace_event, trace_gc, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.pftrace"


@pytest.fixture
def watched_collector() -> Iterator[None]:
    before = list(gc.callbacks)
    yield
    gc.callbacks[:] = before


def test_events_nest_on_the_row_of_their_thread(path: Path) -> None:
    def work() -> None:
        with trace_event("in a worker"):
            pass

    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with tracing(path, process_name="löader"):
        with trace_event("outer"), trace_event("inner"):
            time.sleep(0.002)
        thread = threading.Thread(target=work, name="Wörker 1")
        thread.start()
        thread.join()
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    trace = perfetto_traces.read(path)
    assert trace.process == (os.getpid(), "löader")
    main = trace.row(threading.current_thread().name)
    assert (main.pid, main.tid) == (os.getpid(), threading.get_native_id())
    inner, outer = main.events
    assert (inner.name, inner.parents, outer.name, outer.parents) == ("inner", ("outer",), "outer", ())
    assert before <= outer.begin <= inner.begin < inner.end <= outer.end <= after
    assert inner.end - inner.begin >= 2_000_000
    (event,) = trace.row("Wörker 1").events
    assert event.name == "in a worker"
    assert not any(row.open for row in trace.rows.values())


def test_times_can_be_told_by_the_clock_on_the_wall(path: Path) -> None:
    with tracing(path):
        pass
    clocks = perfetto_traces.read(path).clocks
    assert abs(clocks[6] - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) < 60e9
    assert abs(clocks[1] - time.time_ns()) < 60e9


def test_the_message_types_are_perfettos(path: Path) -> None:
    name = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
    messages = pytest.importorskip(name, reason="needs the package perfetto")
    with tracing(path, process_name="a program"):
        with trace_event("an event"):
            trace_counter(3, -7)
        trace_counter(4, 0.25)
    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    descriptors = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    assert descriptors[0].process.process_name == "a program"
    by_number = {track.uuid: track for track in descriptors}
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    kinds = [messages.TrackEvent.Type.Name(event.type).removeprefix("TYPE_") for event in events]
    assert kinds == ["SLICE_BEGIN", "COUNTER", "SLICE_END", "COUNTER"]
    assert [event.name for event in events] == ["an event", "", "", ""]
    assert by_number[events[0].track_uuid].thread.tid == threading.get_native_id()
    assert [events[1].counter_value, events[3].double_counter_value] == [-7, 0.25]
    counters = [by_number[event.track_uuid] for event in (events[1], events[3])]
    assert [(track.name, track.HasField("counter")) for track in counters] == [("counter 3", True), ("counter 4", True)]
    assert {track.parent_uuid for track in counters} == {descriptors[0].uuid}
    assert all(packet.trusted_packet_sequence_id == 1 for packet in trace.packet)


def test_native_calls_are_events(path: Path) -> None:
    photo = make_jpeg()
    with tracing(path), trace_event("mine"):
        load_image(photo)
        load_image_batch([photo] * 5, width=8, height=8, num_threads=2)
    trace = perfetto_traces.read(path)
    for name in ("demux_image", "decode_packets", "convert_frames", "load_image_batch"):
        (event,) = trace.events(name)
        assert event.parents == ("mine",)
    assert {event.parents for event in trace.events("wait for the GIL")} == {("mine",)}
    loads = trace.events("load one image")
    assert len(loads) == 5
    assert {event.parents for event in loads} <= {(), ("mine", "load_image_batch")}


def test_a_thread_that_only_makes_native_calls_has_its_name_in_python(path: Path) -> None:
    with tracing(path), ThreadPoolExecutor(1, thread_name_prefix="decoder") as pool:
        pool.submit(load_image, make_jpeg()).result()
    assert {event.name for event in perfetto_traces.read(path).row("decoder_0").events} >= {"demux_image"}


def test_counters_keep_ints_and_floats(path: Path) -> None:
    with tracing(path):
        trace_counter(0, 1)
        trace_counter(7, 0.5)
        trace_counter(0, -(2**63))
        trace_counter(0, 2**63 - 1)
    assert perfetto_traces.read(path).counters == {"counter 0": [1, -(2**63), 2**63 - 1], "counter 7": [0.5]}


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
    collections = perfetto_traces.read(path).events("gc, generation 1")
    assert [event.parents for event in collections] == [("mine",)]


def test_what_was_recorded_is_kept_if_the_body_raises(path: Path) -> None:
    with pytest.raises(KeyError, match="mine"), tracing(path), trace_event("fails"):
        raise KeyError("mine")
    assert [event.name for event in perfetto_traces.read(path).row(threading.current_thread().name).events] == ["fails"]


def test_memory_is_bounded_and_nothing_is_lost(path: Path) -> None:
    with tracing(path, buffer_size=1):
        for index in range(1000):
            with trace_event(f"event {index}"):
                pass
        # What is not in the file is in a buffer of 1 KiB.
        written = path.stat().st_size
    events = perfetto_traces.read(path).row(threading.current_thread().name).events
    assert [event.name for event in events] == [f"event {index}" for index in range(1000)]
    assert path.stat().st_size - written <= 1024


def test_all_threads_write_whole_packets(path: Path) -> None:
    def work() -> None:
        for index in range(2000):
            with trace_event("a"), trace_event("b" * (index % 300)):
                trace_counter(index % 8, index)

    threads = [threading.Thread(target=work, name=f"hammer {index}") for index in range(6)]
    with tracing(path, buffer_size=2):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = perfetto_traces.read(path)
    assert all(len(trace.row(thread.name).events) == 4000 for thread in threads)
    assert sum(map(len, trace.counters.values())) == 12_000


def test_long_names_are_cut_between_characters(path: Path) -> None:
    name = "é" * 100_000
    with tracing(path, process_name="x" + name), trace_event("x" + name):
        pass
    trace = perfetto_traces.read(path)
    assert trace.process[1] == "x" + "é" * 255
    assert len(trace.events("x" + "é" * 255)) == 1


def test_an_event_that_outlives_its_trace_is_in_no_other(path: Path, tmp_path: Path) -> None:
    with tracing(path):
        event = trace_event("long")
        event.__enter__()
    other = tmp_path / "other.pftrace"
    with tracing(other):
        event.__exit__(None, None, None)
        with trace_event("short"):
            pass
    assert [event.name for event in perfetto_traces.read(other).row(threading.current_thread().name).events] == [
        "short"
    ]
    assert perfetto_traces.read(path).row(threading.current_thread().name).open[0][0] == "long"


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
    assert len(perfetto_traces.read(path).events("goes on")) == 1


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no_such"), tracing(tmp_path / "no_such" / "trace"):
        pass
    with tracing(tmp_path / "trace"):
        pass


def test_a_full_disk_is_an_error_at_the_end() -> None:
    events = ExitStack()
    events.enter_context(tracing("/dev/full"))
    events.enter_context(trace_event("x"))
    with pytest.raises(OSError, match=r"the trace could not be written: .*'/dev/full'"):
        events.close()


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


def trace_until_killed(path: str) -> None:
    with tracing(path, buffer_size=1):
        for _ in range(1000):
            with trace_event("before the end"):
                pass
        os._exit(7)


def test_a_process_that_is_killed_leaves_a_trace(path: Path) -> None:
    program = f"from {__name__} import trace_until_killed as run; run({str(path)!r})"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 7
    # The last packet may be missing, or a part of it in a file of a system that fails.
    assert len(perfetto_traces.read(path).events("before the end")) > 900


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
    other = tmp_path / "child.pftrace"
    subprocess.run([sys.executable, "-c", program, str(path), str(other)], check=True)
    trace = perfetto_traces.read(path)
    assert {event.name for row in trace.rows.values() for event in row.events} == {"before", "after"}
    child = perfetto_traces.read(other)
    assert child.process[0] != trace.process[0]
    (row,) = child.rows.values()
    assert (row.tid, [event.name for event in row.events]) == (child.process[0], ["child"])
