"""`spdl record PID`: have a process that runs record its pipelines for a while."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spdl.cli._common.console import FAILED, CommandError, say
from spdl.cli._common.text import several, shortened
from spdl.cli._observe.chosen import COMMAND_WIDTH, chosen, command_of, only_process, pipelines_of
from spdl.cli._record.output import check_output, writing
from spdl.observe._trace.ask import AskedAlreadyError, ProcessRequest, RecordingError
from spdl.observe._trace.messages import MOST_SECONDS
from spdl.observe._window.seen import is_stopped
from spdl.pipeline._report.page_file import pid_namespace, started_ticks

if TYPE_CHECKING:
    from argparse import Namespace

    from spdl.observe import ObservedPipeline


# How long it is recorded, and how long its answer is waited for, unless the user says something else.
_SECONDS, _WAIT = 5.0, 10.0


def record_process(options: Namespace) -> int:
    """Record a process for some seconds, or until Ctrl-C, and write the trace.

    Returns:
        0.

    Raises:
        CommandError: The trace could not be made. The message has the reason.
    """
    pid: int = options.pid
    seconds = _SECONDS if options.seconds is None else options.seconds
    wait = _WAIT if options.wait is None else options.wait
    if seconds > MOST_SECONDS:
        raise CommandError(f"--seconds: {seconds:g} is more than a day, {MOST_SECONDS:,.0f} seconds")
    check_output(options.output)
    pipeline = _pipeline_of(pid)
    pid = pipeline.head.pid
    try:
        with ProcessRequest(pipeline.head, pipeline.path.parent) as request:
            number = _begin(request, pipeline, seconds, wait)
            (command,) = shortened([command_of(pipeline)], COMMAND_WIDTH)
            # Before it is said that Ctrl-C may be pressed.
            with _interrupt_stops(request):
                say(
                    f"recording {several(number, 'pipeline')} of process {pid} ({command}) for {seconds:g} s;"
                    " Ctrl-C ends it earlier"
                )
                with writing(options.output) as content:
                    only_latest = request.receive(content, seconds)
    except AskedAlreadyError as error:
        raise CommandError(f"{error}: one trace at a time", exit_status=FAILED) from error
    except RecordingError as error:
        raise CommandError(str(error), exit_status=FAILED) from error
    if only_latest:
        say(
            f"more happened than is kept: the trace has the latest {only_latest:,} slices, and as many values of"
            " counters. To see all, record for a shorter time"
        )
    say(f"wrote {options.output}; open it at https://ui.perfetto.dev")
    return 0


def _pipeline_of(pid: int) -> ObservedPipeline:
    """Return a pipeline that can be asked: of a process, or else of the only one of those that it has started."""
    if not pipelines_of(pid) and (why := _why_none(pid)):
        raise CommandError(why, exit_status=FAILED)
    pipelines = chosen(pid)
    pid = only_process(pid, pipelines)
    pipeline = next((each for each in pipelines if each.state() != "killed"), None)
    if pipeline is None:
        raise CommandError(
            f"process {pid} was killed; `spdl why {pid}` and `spdl stack {pid}` tell what it did at last",
            exit_status=FAILED,
        )
    # In another container, another process may have that number here.
    if pipeline.head.pid_namespace == pid_namespace() and is_stopped(pid):
        raise CommandError(
            f"process {pid} is stopped, by a signal or a debugger; `kill -CONT {pid}` lets it go on",
            exit_status=FAILED,
        )
    return pipeline


def _why_none(pid: int) -> str:
    """Return why a process shows no pipeline, if that is known."""
    folder = Path(f"/proc/{pid}")
    try:
        if folder.stat().st_uid != os.geteuid():
            return f"process {pid} belongs to another user, and only that user can record it"
        settings = (folder / "environ").read_bytes().split(b"\0")
    except FileNotFoundError:
        return f"there is no process {pid}; `spdl ps` lists those that run pipelines"
    except OSError:
        return ""
    if b"SPDL_OBSERVE=0" in settings:
        return (
            f"process {pid} was started with SPDL_OBSERVE=0, so nothing can be asked of it;"
            " `spdl record -- PROGRAM ...` records a program from its start"
        )
    return ""


def _begin(request: ProcessRequest, pipeline: ObservedPipeline, seconds: float, wait: float) -> int:
    pid = pipeline.head.pid
    try:
        return request.begin({"seconds": seconds}, within=wait, is_gone=lambda: _is_gone(pipeline))
    except TimeoutError:
        raise CommandError(
            f"process {pid} has not answered within {wait:g} s: its pipelines do nothing. They hang, are all in long"
            f" calls, or wait for a training step that takes long. `spdl stack {pid}` shows where its threads are, and"
            " `--wait S` waits longer",
            exit_status=FAILED,
        ) from None


def _is_gone(pipeline: ObservedPipeline) -> bool:
    head = pipeline.head
    if head.started_ticks and head.pid_namespace == pid_namespace():
        return started_ticks(head.pid) != head.started_ticks
    return pipeline.state() == "killed"


@contextmanager
def _interrupt_stops(request: ProcessRequest) -> Iterator[None]:
    # The first Ctrl-C ends the recording, and what was recorded is written. The second one gives it up.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        request.stop()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
