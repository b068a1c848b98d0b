"""Test how a pipeline ends that nobody stops: garbage collection, signals, interpreter exit, fork."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import pytest
from tests.pipeline.support import build, wait_until

from spdl.pipeline import PipelineFailure


def run_python(program: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
        **kwargs,
    )


def test_a_forgotten_pipeline_ends_its_threads() -> None:
    before = set(threading.enumerate())
    pipeline = build(range(1000), lambda x: x, num_threads=4)
    assert pipeline.get_item() == 0
    assert set(threading.enumerate()) > before
    del pipeline
    gc.collect()
    assert wait_until(lambda: set(threading.enumerate()) <= before)


def test_the_interpreter_exits_with_a_pipeline_running() -> None:
    done = run_python(
        """
        import itertools, time
        from spdl.pipeline import PipelineBuilder
        builder = PipelineBuilder().add_source(itertools.count()).pipe(lambda x: time.sleep(0.01) or x)
        pipeline = builder.add_sink(1).build(num_threads=2)
        print(pipeline.get_item())
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


def test_the_interpreter_stops_a_pipeline_at_its_exit() -> None:
    done = run_python(
        """
        import itertools, threading
        from spdl.pipeline import PipelineBuilder
        def items():
            try:
                yield from itertools.count()
            finally:
                print("closed in", threading.current_thread().name.split("_")[0], flush=True)
        pipeline = PipelineBuilder().add_source(items()).add_sink(1).build(num_threads=1)
        print(pipeline.get_item())
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\nclosed in spdl\n", "", 0)


# A pipeline with an executor of daemon threads, in which an op runs until the interpreter exits, and somewhat longer.
DAEMON = """
    import atexit, signal, threading, time
    from concurrent.futures import Executor, Future
    from spdl.pipeline import PipelineBuilder
    class Daemon(Executor):
        def submit(self, function, *args):
            future = Future()
            def run():
                future.set_running_or_notify_cancel()
                future.set_result(function(*args))
            threading.Thread(target=run, daemon=True).start()
            return future
    running, go_on = threading.Event(), threading.Event()
    def op(x):
        running.set()
        go_on.wait(30)
        time.sleep(0.1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("left", flush=True)
    pipeline = PipelineBuilder().add_source([1]).pipe(op, executor=Daemon()).add_sink(1).build(num_threads=1)
    pipeline.start()
    running.wait()
"""


def test_the_interpreter_waits_for_an_executor_of_daemons() -> None:
    # Called before what the pipeline registers.
    done = run_python(DAEMON + "    atexit.register(go_on.set)\n")
    assert (done.stdout, done.stderr, done.returncode) == ("left\n", "", 0)


def test_an_interrupted_exit_still_waits_for_an_executor_of_daemons() -> None:
    done = run_python(
        DAEMON
        + """
    def interrupt(*_):
        go_on.set()
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.05, 0.05)
    """
    )
    assert (done.stdout, done.returncode) == ("left\n", 0)
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize("function", ["register", "unregister"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_start_leaves_others_to_be_stopped_at_the_exit(function: str, when: str) -> None:
    """A Ctrl-C comes into what the second start tells the interpreter."""
    done = run_python(
        f"""
        import atexit, itertools
        from spdl.pipeline import PipelineBuilder
        def items(name):
            try:
                yield from itertools.count()
            finally:
                print("closed", name, flush=True)
        def build(name):
            return PipelineBuilder().add_source(items(name)).add_sink(1).build(num_threads=1)
        first, second = build("first"), build("second")
        print(first.get_item())
        original = atexit.{function}
        def interrupted(*args):
            if {when == "after"}:
                original(*args)
            raise KeyboardInterrupt
        atexit.{function} = interrupted
        try:
            second.start()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        atexit.{function} = original
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\ninterrupted\nclosed first\n", "", 0)


def test_the_interpreter_exits_though_the_source_blocks() -> None:
    done = run_python(
        """
        import threading, time
        from spdl.pipeline import PipelineBuilder
        def source():
            yield 1
            threading.Event().wait()
        pipeline = PipelineBuilder().add_source(source()).add_sink(1).build(num_threads=2)
        print(pipeline.get_item())
        print(time.monotonic())
        """
    )
    ended = time.monotonic()
    item, left = done.stdout.split()
    assert (item, done.stderr, done.returncode) == ("1", "", 0)
    assert ended - float(left) < 20


def test_an_interrupted_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name.endswith("_2"):
            raise KeyboardInterrupt
        start(thread)

    pipeline = build(range(1000), lambda x: x, concurrency=4, num_threads=4)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt), pipeline.auto_stop():
            pass
    assert wait_until(lambda: set(threading.enumerate()) <= before)


def test_control_c_reaches_a_waiting_reader() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import threading, time
                from spdl.pipeline import PipelineBuilder
                over = threading.Event()
                def op(x):
                    while not pipeline._engine.sink.readers:
                        time.sleep(0.001)
                    print("running", flush=True)
                    over.wait(20)
                pipeline = PipelineBuilder().add_source([1]).pipe(op).add_sink(1).build(num_threads=2)
                with pipeline.auto_stop():
                    try:
                        pipeline.get_item()
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                    finally:
                        over.set()
                """
            ),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(20) == 0


def test_stop_in_a_signal_handler() -> None:
    done = run_python(
        """
        import itertools, os, signal, threading, time
        from spdl.pipeline import PipelineBuilder
        builder = PipelineBuilder().add_source(itertools.count()).pipe(lambda x: x, concurrency=3)
        pipeline = builder.add_sink(2).build(num_threads=3)
        signal.signal(signal.SIGALRM, lambda *_: pipeline.stop())
        with pipeline.auto_stop():
            for number, _ in enumerate(pipeline):
                # Not before the first item, which may take long on a busy machine.
                if number == 0:
                    signal.setitimer(signal.ITIMER_REAL, 0.2)
        print("ended")
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


# A pipeline of one op, which runs until `over` is set, and a Ctrl-C after so many seconds.
INTERRUPTED = """
    import atexit, signal, threading, time
    from spdl.pipeline import PipelineBuilder
    running, over = threading.Event(), threading.Event()
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    def op(x):
        running.set()
        over.wait(30)
        # A signal that comes once the interpreter has let go of its handlers would end the process.
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("left", flush=True)
    pipeline = PipelineBuilder().add_source([1]).pipe(op).add_sink(1).build(num_threads=1)
"""


def test_an_interrupted_stop_still_knows_what_runs() -> None:
    done = run_python(
        INTERRUPTED
        + """
    pipeline.start()
    running.wait()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        pipeline.stop()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    try:
        pipeline.stop(timeout=0.1)
    except TimeoutError:
        print("runs", flush=True)
    threading.Timer(0.3, over.set).start()
    pipeline.stop()
    print("stopped")
    """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\nruns\nleft\nstopped\n", "", 0)


def test_an_interrupted_exit_still_waits_for_threads() -> None:
    done = run_python(
        INTERRUPTED
        + """
    pipeline.start()
    running.wait()
    def late():
        time.sleep(0.6)
        over.set()
    threading.Thread(target=late, daemon=True).start()
    # Somebody hammers on Ctrl-C.
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.1)
    """
    )
    assert (done.stdout, done.returncode) == ("left\n", 0)
    assert "KeyboardInterrupt" in done.stderr


def test_a_thread_that_the_exit_ended_keeps_no_lock() -> None:
    done = run_python(
        INTERRUPTED
        + """
    def hold_lock():
        def hold():
            pipeline._engine.lock.acquire()
            held.set()
            time.sleep(30)
        held = threading.Event()
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        # From here on only the collector knows it, and closes it when the thread is not there any more.
        kept.append(kept)
        globals().pop("kept")
    # Called after what the pipeline registers.
    atexit.register(hold_lock)
    def items():
        with pipeline.auto_stop():
            running.wait()
            yield
    kept = [items()]
    next(kept[0])
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    """
    )
    assert (done.stdout, done.returncode) == ("", 0)
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_is_told_to_build_its_own() -> None:
    done = run_python(
        """
        import os, warnings
        from spdl.pipeline import PipelineBuilder
        # Newer Pythons warn of forks in processes that have threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pipeline = PipelineBuilder().add_source(range(10)).add_sink(1).build(num_threads=1)
        pipeline.start()
        if pid := os.fork():
            os.waitpid(pid, 0)
            print(sum(pipeline))
        else:
            try:
                while True:
                    pipeline.get_item(timeout=5)
            except RuntimeError as error:
                print("forked" in str(error), flush=True)
            os._exit(0)
        """
    )
    assert (done.stdout, done.returncode) == ("True\n45\n", 0), done.stderr


class Refers:
    """An op that refers to its pipeline, as its results do, and the frames of what it raises."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pipeline: Any = None

    def __call__(self, item: int) -> Any:
        if self.kind == "failed":
            raise ValueError(item)
        return [self.pipeline] if self.kind == "unread" else item


@pytest.mark.parametrize("kind", ["never started", "finished", "failed", "unread"])
def test_a_pipeline_that_refers_to_itself_is_collected(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest keeps log records, and these the frames of the op.
    monkeypatch.setattr(logging.getLogger("spdl.pipeline"), "disabled", True)
    op = Refers(kind)
    pipeline = op.pipeline = build(range(5), op, num_threads=1, max_failures=0)
    if kind != "never started":
        with suppress(PipelineFailure), pipeline.auto_stop():
            for _ in pipeline:
                if kind == "unread":
                    break
    collected = weakref.ref(pipeline)
    # The loop's item refers to it, too.
    del op, pipeline
    _ = None

    def is_collected() -> bool:
        gc.collect()
        return collected() is None

    # The threads may hold it a moment longer.
    assert wait_until(is_collected)
