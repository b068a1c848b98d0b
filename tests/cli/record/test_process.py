"""`spdl record PID`: processes that know nothing of it, and one of ours."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import running as running_command
from tests.observe.pages import NOBODY, folder_of_all_pages, request_file
from tests.observe.programs import observed, own_page, running
from tests.traces import read

from spdl.cli import main
from spdl.observe import find_pipelines, record_trace
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._declare import defaults
from spdl.pipeline._report.page_file import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline._report.recorder import Recorder

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]

# One pipeline without an end, and one after the other that has one, until its input ends.
PROGRAM = """
import itertools, os, sys, threading, time
from spdl.pipeline import PipelineBuilder

def double(item):
    time.sleep(0.0002)
    return 2 * item

def halve(item):
    return item // 2

def read_for_ever():
    builder = PipelineBuilder().add_source(itertools.count()).pipe(double, concurrency=2).aggregate(2).add_sink(3)
    with builder.build(num_threads=2).auto_stop() as pipeline:
        for _ in pipeline:
            pass

def read_epochs():
    while True:
        pipeline = PipelineBuilder().add_source(range(0, 20, 2)).pipe(halve).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == list(range(10))
        time.sleep(0.001)

for function in (read_for_ever, read_epochs):
    threading.Thread(target=function, daemon=True).start()
for line in sys.stdin:
    # A child outlives it.
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(flush=True)
"""


@contextmanager
def program() -> Iterator[subprocess.Popen[bytes]]:
    with running(PROGRAM, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with process.stdin:
            observed(process, lambda seen: seen.delivered >= 2)
            yield process


@contextmanager
def recording(pid: int, output: Path) -> Iterator[subprocess.Popen[str]]:
    """Record a process in another one, with no end, from when it has begun."""
    with running_command("record", str(pid), "-o", output, "--seconds", "1000") as recorder:
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith("spdl: recording ")
        yield recorder


def record(pid: int, *arguments: str | Path) -> int:
    return main(["record", str(pid), *map(str, arguments)])


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def latest(pid: int) -> int:
    return max((pipeline.head.pipeline for pipeline in find_pipelines(pid)), default=0)


def requests(pid: int) -> list[Path]:
    return list(folder_of_all_pages().glob(f"{pid}-*.record"))


def child_of(process: subprocess.Popen[bytes]) -> int:
    """Return the child that a process starts, as soon as it is there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: bool(children.read_text()))
    return int(children.read_text())


def test_a_process_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.json.gz"
    with program() as process:
        with recording(process.pid, output) as recorder:
            begun = latest(process.pid)
            # One trace at a time.
            assert record(process.pid, "-o", tmp_path / "second") == 1
            until(lambda: latest(process.pid) > begun + 2)
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=100)
        assert (recorder.returncode, errors) == (0, f"spdl: wrote {output}; open it at https://ui.perfetto.dev\n")
        assert f"process {process.pid} is being recorded already" in capsys.readouterr().err
        # It goes on, and can be recorded again.
        assert record(process.pid, "-o", tmp_path / "third", "--seconds", "0.02") == 0
        assert f"spdl: wrote {tmp_path / 'third'}" in capsys.readouterr().err
        assert requests(process.pid) == []
    assert list(read(tmp_path / "third").processes.values()) == ["-c"]
    trace = read(output)
    # Those that began and ended meanwhile went all the way.
    ways = [[piece.name for piece in way] for way in trace.flows().values()]
    gathered = "aggregate(op=collate(2), drop_last=False)"
    whole = [way for way in ways if way[0] == "src" and way[-1] == "step"]
    assert {tuple(way) for way in whole} == {("src", "double", gathered, "step"), ("src", "halve", "step")}
    pipelines = {piece.notes["pipeline"] for piece in trace.named("halve")}
    # Also those that were built meanwhile.
    assert len(pipelines) >= 2
    assert any(name.startswith("queue of double") for name in trace.counters)
    assert {each.name for each in tmp_path.iterdir()} == {"out.json.gz", "third"}


def test_a_recorder_that_is_killed_ends_the_recording(tmp_path: Path) -> None:
    with program() as process:
        with recording(process.pid, tmp_path / "out") as recorder:
            recorder.kill()
            recorder.wait()
        # Else it would say that it records already.
        assert record(process.pid, "-o", tmp_path / "second", "--seconds", "0.02") == 0
        assert not (tmp_path / "out").exists()
        until(lambda: requests(process.pid) == [])
    assert read(tmp_path / "second").processes


def test_a_process_that_ends_sends_what_it_has(tmp_path: Path) -> None:
    with program() as process, recording(process.pid, tmp_path / "out") as recorder:
        begun = latest(process.pid)
        until(lambda: latest(process.pid) > begun)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(50) == 0
        recorder.communicate(timeout=100)
        assert recorder.returncode == 0
    assert read(tmp_path / "out").named("double")


def test_of_a_process_that_is_killed_there_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("of yesterday")
    with program() as process, recording(process.pid, tmp_path / "out") as recorder:
        # It has forked: the child's copy of the connection must not keep it open.
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        child = child_of(process)
        process.kill()
        _, errors = recorder.communicate(timeout=100)
        os.kill(child, signal.SIGKILL)
    assert (recorder.returncode, errors) == (
        1,
        f"spdl: process {process.pid} has ended before it could send what it had recorded\n",
    )
    assert (tmp_path / "out").read_text() == "of yesterday"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


FORKS = """
import itertools, multiprocessing, os, sys, threading, time
from spdl.pipeline import PipelineBuilder

def read():
    builder = PipelineBuilder().add_source(itertools.count()).pipe(abs).add_sink(3)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        for _ in pipeline:
            if os.path.exists({over!r}):
                break
            time.sleep(0.0002)

threading.Thread(target=read, daemon=True).start()
sys.stdin.readline()
child = multiprocessing.get_context("fork").Process(target=read)
child.start()
child.join()
"""


def test_a_child_of_a_process_that_was_recorded_sends_what_it_has_when_it_ends(tmp_path: Path) -> None:
    over = tmp_path / "over"
    with running(FORKS.format(over=str(over)), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with process.stdin:
            observed(process, lambda seen: seen.delivered >= 2)
            assert record(process.pid, "-o", tmp_path / "first", "--seconds", "0.02") == 0
            process.stdin.write(b"\n")
            process.stdin.flush()
        child = child_of(process)
        until(lambda: bool(find_pipelines(child)))
        with recording(child, tmp_path / "second") as recorder:
            over.touch()
            _, errors = recorder.communicate(timeout=100)
        assert (recorder.returncode, errors.startswith("spdl: wrote ")) == (0, True)
    assert read(tmp_path / "second").processes


# Two ranks of a job, and their launcher.
RANKS = """
import os, subprocess, sys
rank = {rank!r}
ranks = [subprocess.Popen([sys.executable, "-c", rank], env=os.environ | {{"RANK": str(each)}}) for each in range(2)]
for each in ranks:
    each.wait()
"""
RANK = """
import itertools, time
from spdl.pipeline import PipelineBuilder
with PipelineBuilder().add_source(itertools.count()).pipe(abs).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
    for _ in pipeline:
        time.sleep(0.0002)
"""


def ranks_of(launcher: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return the processes of the ranks that a launcher has started, once their pipelines run."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")

    def found() -> dict[str, int]:
        pages = [page for child in children.read_text().split() for page in find_pipelines(int(child))]
        return {page.head.ranks["RANK"]: page.head.pid for page in pages}

    until(lambda: len(found()) == 2)
    return found()


def test_all_ranks_that_a_launcher_has_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def named(output: Path) -> dict[int, str]:
        return read(output).processes

    with running(RANKS.format(rank=RANK)) as launcher:
        pids = ranks_of(launcher)
        assert record(launcher.pid, "-o", tmp_path / "both", "--seconds", "0.1") == 0
        said = capsys.readouterr().err
        assert "recording 2 pipelines of 2 processes (-c " in said
        assert f"wrote {tmp_path / 'both'} with rank 0 (pid {pids['0']}), rank 1 (pid {pids['1']});" in said
        assert named(tmp_path / "both") == {pids["0"]: "-c, rank 0", pids["1"]: "-c, rank 1"}
        assert {row.process for row in read(tmp_path / "both").rows.values()} == set(pids.values())

        # One that cannot be recorded is named, and does not keep the others from it.
        os.kill(pids["1"], signal.SIGSTOP)
        until(lambda: " T " in Path(f"/proc/{pids['1']}/stat").read_text())
        assert record(launcher.pid, "-o", tmp_path / "one", "--seconds", "0.1") == 1
        said = capsys.readouterr().err
        assert f"rank 1 (pid {pids['1']}) is not in the trace: process {pids['1']} is stopped" in said
        assert named(tmp_path / "one") == {pids["0"]: "-c, rank 0"}
        assert requests(pids["0"]) == requests(pids["1"]) == []


HOLDS_THE_GIL = """
import ctypes, shlex
from spdl.pipeline import PipelineBuilder
with PipelineBuilder().add_source(iter(int, 1)).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
    for _ in range(3):
        pipeline.get_item()
    # The file is made while it holds the GIL already.
    ctypes.PyDLL(None).system(("touch " + shlex.quote({path!r}) + "; sleep 1000").encode())
"""


def test_what_does_not_answer_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    held = tmp_path / "held"
    with running(HOLDS_THE_GIL.format(path=str(held))) as process:
        until(held.exists)
        assert record(process.pid, "-o", output, "--wait", "0.2") == 1
        message = capsys.readouterr().err
        assert f"process {process.pid} has not answered within 0.2 s" in message
        assert f"`spdl stack {process.pid}` shows" in message
        assert requests(process.pid) == []

        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert record(process.pid, "-o", output) == 1
        assert f"process {process.pid} is stopped" in capsys.readouterr().err

        process.kill()
        process.wait()
        assert record(process.pid, "-o", output) == 1
        assert f"process {process.pid} was killed; `spdl why {process.pid}`" in capsys.readouterr().err
    assert not output.exists()


def test_what_cannot_be_recorded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    assert record(NOBODY, "-o", output) == 1
    assert f"there is no process {NOBODY}" in capsys.readouterr().err
    assert record(1, "-o", output, "--seconds", "1e6") == 2
    assert "more than a day" in capsys.readouterr().err
    assert main(["record", "--seconds", "3", "--", "true"]) == 2
    assert "--seconds is for a process" in capsys.readouterr().err
    unseen = {**os.environ, "SPDL_OBSERVE": "0"}
    with subprocess.Popen(["/bin/sleep", "60"], env=unseen) as process:
        try:
            # Whoever starts a process goes on before its environment can be read.
            until(lambda: bool(Path(f"/proc/{process.pid}/environ").read_bytes()))
            assert record(process.pid, "-o", output) == 1
            assert "was started with SPDL_OBSERVE=0" in capsys.readouterr().err
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
            assert record(process.pid, "-o", output) == 1
            assert "belongs to another user" in capsys.readouterr().err
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


# ---- this process ----


@contextmanager
def own() -> Iterator[Pipeline[Any]]:
    """Run a pipeline in this process that is read all the time."""
    over = threading.Event()
    pipeline = PipelineBuilder().add_source(iter(int, 1)).pipe(str, name="own").add_sink(3).build(num_threads=1)

    def consume() -> None:
        for _ in pipeline:
            if over.wait(0.001):
                return

    with pipeline.auto_stop():
        thread = threading.Thread(target=consume)
        thread.start()
        try:
            own_page(pipeline)
            yield pipeline
        finally:
            over.set()
            thread.join()


def test_a_program_that_records_itself_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statuses: list[int] = []

    def record_own() -> None:
        statuses.append(record(os.getpid(), "-o", tmp_path / "others", "--seconds", "1000"))

    with own() as pipeline:
        thread = threading.Thread(target=record_own)
        thread.start()
        until(lambda: "Traced" in type(pipeline._engine.sink).__name__)
        # It takes over. Whoever has recorded until now gets that.
        with record_trace(tmp_path / "own"):
            thread.join()
            assert statuses == [0]
            assert record(os.getpid(), "-o", tmp_path / "others too") == 1
            inner = PipelineBuilder().add_source(range(3)).pipe(str, name="inner").add_sink(3).build(num_threads=1)
            with inner.auto_stop():
                assert list(inner) == ["0", "1", "2"]
    assert "it records its pipelines already, by `record_trace`" in capsys.readouterr().err
    assert len(read(tmp_path / "own").named("inner")) == 3
    assert read(tmp_path / "own").named("own") == []
    assert read(tmp_path / "others").named("inner") == []
    assert not (tmp_path / "others too").exists()


def test_a_program_that_records_itself_as_another_begins_to_does_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = defaults.claim_recorder
    claimed = threading.Event()

    def claim_and_linger(recorder: Recorder) -> bool:
        found = claim(recorder)
        if threading.current_thread().name == "spdl_record_thread":
            claimed.set()
            time.sleep(0.5)
        return found

    monkeypatch.setattr(defaults, "claim_recorder", claim_and_linger)
    statuses: list[int] = []

    def record_own() -> None:
        statuses.append(record(os.getpid(), "-o", tmp_path / "others", "--seconds", "5"))

    with own():
        thread = threading.Thread(target=record_own)
        thread.start()
        try:
            assert claimed.wait(30)
            with record_trace(tmp_path / "own"):
                pass
        finally:
            thread.join()
    # Whoever was first gets what there was until then.
    assert statuses == [0]
    assert read(tmp_path / "own").processes


def test_it_is_told_if_more_happened_than_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with own():
        with monkeypatch.context() as patch:
            patch.setattr("spdl.observe._trace.answer.MAX_EVENTS", 5)
            assert record(os.getpid(), "-o", tmp_path / "few", "--seconds", "1.5") == 0
        assert "the trace has the latest 5 slices" in capsys.readouterr().err
        assert record(os.getpid(), "-o", tmp_path / "all", "--seconds", "0.02") == 0
        assert "latest" not in capsys.readouterr().err
    assert sum(len(row.pieces) for row in read(tmp_path / "few").rows.values()) >= 5


def test_ctrl_c_as_soon_as_it_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(text: str) -> None:
        if text.startswith("recording"):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("spdl.cli._record.say", press)
    with own():
        assert record(os.getpid(), "-o", tmp_path / "out", "--seconds", "1000") == 0
    assert read(tmp_path / "out").processes


def test_a_process_of_another_container_is_not_taken_for_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ours of the same number is stopped.
    monkeypatch.setattr("spdl.cli._record.pid_namespace", lambda: 1)
    monkeypatch.setattr("spdl.cli._record.is_stopped", lambda _: True)
    with own():
        assert record(os.getpid(), "-o", tmp_path / "out", "--seconds", "0.02") == 0
    assert read(tmp_path / "out").processes


def test_a_request_that_somebody_removes_is_told(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with running(HOLDS_THE_GIL.format(path=str(held))) as process:
        until(held.exists)
        path = request_file(find_pipelines(process.pid)[0].head)
        with running_command("record", str(process.pid), "-o", tmp_path / "out", "--wait", "1000") as recorder:
            until(path.exists)
            path.unlink()
            _, errors = recorder.communicate(timeout=100)
    assert recorder.returncode == 1
    assert f"process {process.pid} could not be asked: {path} was removed" in errors


def test_a_process_that_cannot_record_says_so_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: str) -> None:
        raise ImportError("another version")

    monkeypatch.setattr("spdl.observe._trace.answer.answer", fail)
    with own():
        assert record(os.getpid(), "-o", tmp_path / "out", "--wait", "1000") == 1
    assert f"process {os.getpid()} could not be asked" in capsys.readouterr().err
    said = [each.getMessage() for each in caplog.records if "recorded" in each.getMessage()]
    assert said == ["The pipelines could not be recorded: ImportError('another version')"]


def test_a_trace_that_cannot_be_read_is_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a process sends it that runs another version of the package.
    monkeypatch.setattr("spdl.observe._trace.answer.compressed", nullcontext)
    with own():
        assert record(os.getpid(), "-o", tmp_path / "out", "--seconds", "0.02") == 1
    assert f"process {os.getpid()} sends a trace of another version of spdl" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@contextmanager
def listening(pipeline: Pipeline[Any]) -> Iterator[tuple[socket.socket, Path]]:
    """Listen where this process looks."""
    path = request_file(own_page(pipeline).head)
    with socket.socket(socket.AF_UNIX) as listener:
        listen_at(path, listener)
        try:
            yield listener, path
        finally:
            path.unlink(missing_ok=True)


def listen_at(path: Path, listener: socket.socket) -> None:
    """Listen at a path. It is not there before, since one at which nobody listens is removed by whoever finds it."""
    elsewhere = path.with_suffix(".begun")
    listener.bind(str(elsewhere))
    listener.listen()
    elsewhere.rename(path)


def accept_own(listener: socket.socket) -> socket.socket:
    """Return the connection of this process. Pipelines of other tests that start look whether anybody listens there."""
    while True:
        connection, _ = listener.accept()
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid == os.getpid():
            return connection
        connection.close()


def test_a_request_that_was_left_is_removed() -> None:
    with own() as pipeline, listening(pipeline) as (listener, path):
        listener.close()
        until(lambda: not path.exists())
    path = folder_of_all_pages() / f"{NOBODY}-1-1.record"
    with socket.socket(socket.AF_UNIX) as listener:
        listen_at(path, listener)
        sweep()
        # Somebody waits there.
        assert path.exists()
    # It looks at some files only, and other tests may have many there.
    until(lambda: sweep() >= 0 and not path.exists())


@pytest.mark.parametrize(
    "request_",
    [
        b"[]\n",
        b"\xff\n",
        b"x" * 9999,
        pytest.param(b"[" * 20_000 + b"\n", id="deep"),
        b'{"seconds": "1"}\n',
        b'{"seconds": NaN}\n',
        b'{"seconds": 1e9}\n',
        b"",
    ],
)
def test_nonsense_records_nothing(request_: bytes) -> None:
    with own() as pipeline, listening(pipeline) as (listener, path):
        listener.settimeout(60)
        connection = accept_own(listener)
        listener.close()
        with connection, connection.makefile("rb") as heard:
            assert heard.readline().startswith(b'{"pid": ')
            connection.sendall(request_)
            if not request_:
                connection.shutdown(socket.SHUT_WR)
            assert b"pipelines" not in heard.read()
        until(lambda: not path.exists())
        assert type(pipeline._engine.sink).__name__ == "Sink"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_before_the_recording_keeps_no_connection() -> None:
    with own() as pipeline, listening(pipeline) as (listener, _):
        listener.settimeout(60)
        connection = accept_own(listener)
        with connection, connection.makefile("rb") as heard:
            assert heard.readline().startswith(b'{"pid": ')
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            try:
                connection.settimeout(60)
                connection.sendall(b"[]\n")
                # The end comes when all copies are closed.
                assert heard.read() == b""
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
