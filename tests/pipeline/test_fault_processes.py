"""Test events that end or copy the whole process while a pipeline runs: exit, signals, fork.

One program runs every kind of stage in turn, or all of them at once if the process ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE = 60

PROLOGUE = """
    import itertools, os, signal, sys, threading, time
    from contextlib import ExitStack
    from tests.pipeline.kinds import KINDS, Item

    def slow(x):
        time.sleep(0.0005)
        return x

    def endless():
        return map(Item, itertools.count())

    # Processes would be copies of this program, and a stage that flushes gives nothing before the end.
    KINDS = [kind for kind in KINDS if kind.name not in ("processes", "flush")]

    def is_over(pipeline):
        return not any(thread.is_alive() for thread in pipeline._engine.all_threads())
"""


def start(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROLOGUE) + textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )


def run(program: str) -> tuple[str, str, int]:
    with start(program) as child:
        try:
            out, err = child.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    return out, err, child.returncode


def test_the_interpreter_exits_with_all_of_them_running() -> None:
    begin = time.monotonic()
    assert run(
        """
        stack = ExitStack()
        pipelines = [stack.enter_context(kind.pipeline(slow, endless())) for kind in KINDS]
        for pipeline in pipelines:
            pipeline.start()
            assert pipeline.get_item(timeout=20).number < 3
        print("leaving", flush=True)
        # Nobody stops them: their executors and feeding pipelines end with the process as well.
        """
    ) == ("leaving\n", "", 0)
    assert time.monotonic() - begin < DEADLINE / 2


def test_an_exception_ends_the_program() -> None:
    out, err, code = run(
        """
        stack = ExitStack()
        pipelines = [stack.enter_context(kind.pipeline(slow, endless())) for kind in KINDS]
        for pipeline in pipelines:
            pipeline.get_item(timeout=20)
        raise KeyError("of the training loop")
        """
    )
    assert (out, code) == ("", 1)
    assert err.count("Traceback") == 1
    assert err.endswith("KeyError: 'of the training loop'\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGALRM"])
def test_a_signal_whose_handler_raises_or_stops(name: str) -> None:
    assert run(
        f"""
        class Terminated(BaseException):
            pass

        def terminate(*_):
            raise Terminated

        if "{name}" == "SIGTERM":
            signal.signal(signal.SIGTERM, terminate)
        if "{name}" == "SIGALRM":
            signal.signal(signal.SIGALRM, lambda *_: pipeline.stop())
        for kind in KINDS:
            with kind.pipeline(slow, endless()) as pipeline:
                pipeline.start()
                killer = threading.Timer(0.03, os.kill, (os.getpid(), signal.{name}))
                last = -1
                try:
                    for item in pipeline.get_iterator(timeout=20):
                        if last < 0:
                            killer.start()
                        last = item.number
                    assert "{name}" == "SIGALRM", kind
                except (KeyboardInterrupt, Terminated):
                    assert "{name}" != "SIGALRM", kind
                killer.join()
                begin = time.monotonic()
                pipeline.stop(timeout=20)
                assert time.monotonic() - begin < 9, kind
                assert is_over(pipeline), kind
        print("ended")
        """
    ) == ("ended\n", "", 0)


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT), (signal.SIGKILL, -9)]
)
def test_a_signal_that_ends_the_program(sent: signal.Signals, code: int) -> None:
    with start(
        """
        stack = ExitStack()
        pipelines = [stack.enter_context(kind.pipeline(slow, endless())) for kind in KINDS]
        for pipeline in pipelines:
            pipeline.get_item(timeout=20)
        print("reading", flush=True)
        for _ in pipelines[6]:
            pass
        """
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "reading\n"
        child.send_signal(sent)
        begin = time.monotonic()
        try:
            assert child.wait(DEADLINE) == code
        finally:
            child.kill()
        assert time.monotonic() - begin < DEADLINE / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_fork_while_it_runs() -> None:
    assert run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Of forking beside threads, which is the point.

        def in_the_child(pipeline, iterator):
            for act in (pipeline.get_item, lambda: next(iterator), lambda: pipeline.set_concurrency("faulty", 3)):
                try:
                    act()
                except (RuntimeError, ValueError) as error:
                    # Not every kind has a stage whose concurrency can be set.
                    assert "forked" in str(error) or "stage" in str(error), error
                else:
                    return 1
            pipeline.statistics()
            pipeline.failures()
            pipeline.stop(timeout=5)
            return 0

        for kind in KINDS:
            with kind.pipeline(slow, map(Item, range(60))) as pipeline:
                pipeline.start()
                iterator = pipeline.get_iterator(timeout=20)
                got = [next(iterator).number for _ in range(3)]
                pids = []
                for _ in range(3):
                    pid = os.fork()
                    if not pid:
                        signal.alarm(20)
                        code = 2
                        try:
                            code = in_the_child(pipeline, iterator)
                        finally:
                            os._exit(code)
                    pids.append(pid)
                got += [item.number for item in iterator]
                assert sorted(got) == list(range(60)), (kind, got)
                assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 3, kind
                pipeline.stop(timeout=20)
                assert is_over(pipeline), kind
        print("ended")
        """
    ) == ("ended\n", "", 0)
