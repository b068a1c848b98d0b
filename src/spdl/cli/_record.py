"""`spdl record`: a trace of a program, or of a process that runs."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Self, TypeVar

from spdl._files import replaced
from spdl._trace_file import join_traces, trace_content
from spdl.cli._common.console import BAD_INPUT, FAILED, CommandError, say
from spdl.cli._common.machine import run_program
from spdl.cli._common.text import several, shortened
from spdl.cli._observe.chosen import COMMAND_WIDTH, chosen, command_of, name_of, pipelines_of
from spdl.observe._trace.ask import AskedAlreadyError, ProcessRequest, RecordingError
from spdl.observe._trace.folder import SUFFIX
from spdl.observe._trace.messages import MOST_SECONDS
from spdl.observe._window.seen import is_stopped
from spdl.pipeline._declare.defaults import TRACE_FOLDER
from spdl.pipeline._report.page_file import pid_namespace, started_ticks

if TYPE_CHECKING:
    from argparse import Namespace

    from spdl.observe import ObservedPipeline


_T = TypeVar("_T")


class UnwrittenError(CommandError):
    """Raised if a file could not be written."""


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before the program has run for an hour."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a file for the trace, such as {path / 'trace.json.gz'}")
    if path.exists() and not path.is_file():
        raise CommandError(
            f"{path} is a pipe or a device, whose place the trace would take: name a file, such as trace.json.gz"
        )
    with _about(path, BAD_INPUT):
        tempfile.TemporaryFile(dir=path.parent).close()
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Yield what the content of the trace is written to. Raises an UnwrittenError if that fails."""
    with _about(path, FAILED), replaced(path) as file, trace_content(path, file) as content:
        yield content


@contextmanager
def _about(path: Path, exit_status: int) -> Iterator[None]:
    # The user named the file, and does not know its temporary name.
    try:
        yield
    except OSError as error:
        raise UnwrittenError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that is there and that you may write"
            " to",
            exit_status=exit_status,
        ) from error


# How long it is recorded, and how long its answer is waited for, unless the user says something else.
_SECONDS, _WAIT = 5.0, 10.0


def record_process(options: Namespace) -> int:
    """Record a process, or all that it has started, for some seconds, or until Ctrl-C, and write one trace."""
    seconds = _SECONDS if options.seconds is None else options.seconds
    wait = _WAIT if options.wait is None else options.wait
    if seconds > MOST_SECONDS:
        raise CommandError(f"--seconds: {seconds:g} is more than a day, {MOST_SECONDS:,.0f} seconds")
    check_output(options.output)
    found = _to_ask(options.pid)
    (command,) = shortened([command_of(found[0])], COMMAND_WIDTH)
    with _Recordings(found) as recordings:
        numbers = recordings.begin(seconds, wait)
        # Before it is said that Ctrl-C may be pressed.
        with _interrupt_stops(recordings.stop):
            of = f"process {found[0].head.pid}"
            if len(found) > 1:
                of = several(len(recordings.pipelines), "process")
            say(
                f"recording {several(sum(numbers), 'pipeline')} of {of} ({command}) for {seconds:g} s;"
                " Ctrl-C ends it earlier"
            )
            only_latest = recordings.receive(seconds)
        with writing(options.output) as content:
            join_traces(recordings.parts, content)
    if any(only_latest):
        say(
            f"more happened than is kept: the trace has the latest {max(only_latest):,} slices, and as many values of"
            f" counters{'' if len(found) == 1 else ', of a process'}. To see all, record for a shorter time"
        )
    of = "" if len(found) == 1 else f" with {', '.join(map(name_of, recordings.pipelines))}"
    say(f"wrote {options.output}{of}; open it at https://ui.perfetto.dev")
    return 0 if len(recordings.pipelines) == len(found) else FAILED


class _Recordings:
    """Asks processes for their traces, all at once, as long as the block of a ``with`` statement runs.

    Attributes:
        pipelines: One of each process; of those that fail, only until then. If there is no other one, that is raised.
        parts: The files with their traces, uncompressed.
    """

    def __init__(self, pipelines: Sequence[ObservedPipeline]) -> None:
        self.pipelines = list(pipelines)
        self.parts: list[Path] = []
        self._requests: dict[int, ProcessRequest] = {}
        self._given_up = threading.Event()
        self._close = ExitStack()

    def __enter__(self) -> Self:
        self._folder = Path(self._close.enter_context(tempfile.TemporaryDirectory(prefix="spdl-record-")))
        self._threads = self._close.enter_context(ThreadPoolExecutor(len(self.pipelines)))
        return self

    def __exit__(self, *_: object) -> None:
        self._given_up.set()
        self.stop()
        self._close.close()

    def begin(self, seconds: float, wait: float) -> list[int]:
        """Have them record. Return with how many pipelines each does it."""

        def ask(pipeline: ObservedPipeline) -> None:
            _check_runs(pipeline)
            request = ProcessRequest(pipeline.head, pipeline.path.parent)
            self._requests[pipeline.head.pid] = self._close.enter_context(request)

        def begin(pipeline: ObservedPipeline) -> int:
            return _begin(self._requests[pipeline.head.pid], pipeline, seconds, wait, self._given_up)

        self._each(ask)
        return self._each(begin)

    def receive(self, seconds: float) -> list[int]:
        """Take their traces when they come. Return how many slices each keeps if there were more, or else 0."""

        def receive(pipeline: ObservedPipeline) -> int:
            pid = pipeline.head.pid
            with (self._folder / f"{pid}").open("wb") as part:
                return self._requests[pid].receive(part, seconds)

        found = self._each(receive)
        self.parts = [self._folder / f"{pipeline.head.pid}" for pipeline in self.pipelines]
        return found

    def stop(self) -> None:
        """End the recording now. A signal handler may call it."""
        for request in list(self._requests.values()):
            request.stop()

    def _each(self, do: Callable[[ObservedPipeline], _T]) -> list[_T]:
        """Return the results of the processes, and say of each that fails why it is left out."""
        under_way = [(pipeline, self._threads.submit(do, pipeline)) for pipeline in self.pipelines]
        done, errors = list[tuple["ObservedPipeline", _T]](), list[CommandError]()
        for pipeline, future in under_way:
            try:
                done.append((pipeline, future.result()))
            except (RecordingError, CommandError) as error:
                again = ": one trace at a time" if isinstance(error, AskedAlreadyError) else ""
                errors.append(CommandError(f"{error}{again}", exit_status=FAILED))
                if len(under_way) > 1:
                    say(f"{name_of(pipeline)} is not in the trace: {errors[-1]}")
        if not done:
            raise errors[0]
        self.pipelines = [pipeline for pipeline, _ in done]
        return [result for _, result in done]


def _to_ask(pid: int) -> list[ObservedPipeline]:
    """Return a pipeline of each process that can be asked: of the one that is named, or else of all it has started."""
    if not pipelines_of(pid) and (why := _why_none(pid)):
        raise CommandError(why, exit_status=FAILED)
    of_processes: dict[int, ObservedPipeline] = {}
    pipelines = chosen(pid)
    for pipeline in pipelines:
        if pipeline.state() != "killed":
            of_processes.setdefault(pipeline.head.pid, pipeline)
    if not of_processes:
        pid = pipelines[0].head.pid
        raise CommandError(
            f"process {pid} was killed; `spdl why {pid}` and `spdl stack {pid}` show what it did last",
            exit_status=FAILED,
        )
    return list(of_processes.values())


def _check_runs(pipeline: ObservedPipeline) -> None:
    # In another container, another process may have that number here.
    pid = pipeline.head.pid
    if pipeline.head.pid_namespace == pid_namespace() and is_stopped(pid):
        raise CommandError(
            f"process {pid} is stopped, by a signal or a debugger; `kill -CONT {pid}` lets it go on", exit_status=FAILED
        )


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


def _begin(
    request: ProcessRequest, pipeline: ObservedPipeline, seconds: float, wait: float, given_up: threading.Event
) -> int:
    pid = pipeline.head.pid
    try:
        return request.begin({"seconds": seconds}, within=wait, is_gone=lambda: given_up.is_set() or _is_gone(pipeline))
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
def _interrupt_stops(stop_all: Callable[[], None]) -> Iterator[None]:
    # The first Ctrl-C ends the recording, and what was recorded is written. The second one gives it up.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop_all()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


# A terminal sends Ctrl-C to the program as well. What it does then is its own business, and its trace is written after.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def record_program(options: Namespace) -> int:
    """Run the program that the command line names, write one trace of all its processes, and return its exit status.

    Where the trace is missing, the error has the program's status, but for a success of one that has built no pipeline.
    """
    command: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise CommandError(
            "which program? Such as: spdl record -- python train.py. Or which process? Such as: spdl record 4711"
        )
    check_output(options.output)
    with tempfile.TemporaryDirectory(prefix="spdl-record-") as folder:
        status = run_program(command, {TRACE_FOLDER: folder}, _PASSED_ON)
        parts = sorted(Path(folder).glob(f"*{SUFFIX}"))
        if not parts:
            raise CommandError(
                f"{command[0]} built no pipeline, or was killed before it could write what was recorded: "
                "nothing to show.",
                exit_status=status or FAILED,
            )
        try:
            with writing(options.output) as content:
                join_traces(parts, content)
        except UnwrittenError as error:
            # The program has done its work, whether or not its trace can be written.
            raise CommandError(str(error), exit_status=status) from error
    processes = several(len(parts), "process")
    say(f"wrote {options.output} with the pipelines of {processes}; open it at https://ui.perfetto.dev")
    return status


def record(options: Namespace) -> int:
    if options.pid is not None:
        return record_process(options)
    for name in ("seconds", "wait"):
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} is for a process, as in: spdl record PID. A program is recorded to its end")
    return record_program(options)
