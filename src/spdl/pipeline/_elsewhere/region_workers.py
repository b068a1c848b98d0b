"""The workers of regions: processes, interpreters, and threads of this process."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util  # It registers its exit hook before ours, so ours runs first.
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited, was_forked
from spdl.pipeline._declare.placement import ExecutorConfig, InterpreterPoolExecutorConfig, ProcessPoolExecutorConfig
from spdl.pipeline._declare.records import (
    AggregateConfig,
    PathVariantsConfig,
    PipeConfig,
    StageConfig,
    every_stage,
    replace_stages,
)
from spdl.pipeline._elsewhere.worker_channel import ParentEnd, ThreadEnd, WorkerEnd, make_thread_channel
from spdl.pipeline._elsewhere.worker_messages import Job, run_worker, run_worker_here
from spdl.pipeline._elsewhere.worker_process import Running, RunningInterpreter, RunningProcess, interpreter_maker
from spdl.pipeline._stages.process_work import pack
from spdl.pipeline._world import Thread

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine


def _functions_of(job: Job) -> Iterator[tuple[str, object]]:
    for stage in every_stage(job.stages):
        if isinstance(stage, PipeConfig | AggregateConfig):
            yield f"Stage {stage.name!r}: the op", stage.op
        elif isinstance(stage, PathVariantsConfig):
            yield f"Stage {stage.name!r}: the router", stage.router


def packed(region: str, job: Job) -> bytes:
    """Return the pickled work, or raise a TypeError that names the part which cannot be pickled."""
    for what, function in _functions_of(job):
        _check(what, region, function)
    _check("The initializer", region, (job.initializer, job.initargs))
    _check("The factory of hooks, or the class of queues,", region, job.instrumentation)
    _check("The declaration", region, job.stages)
    return pack(job)


def _check(what: str, region: str, value: object) -> None:
    try:
        pack(value)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to the workers of {region}: {error}. Use functions that are defined at the "
            "top level of a module, or a functools.partial of one."
        ) from error


class RegionWorker:
    """A worker that was started, and the connection to it. The region's thread ends it."""

    def __init__(self, channel: ParentEnd | ThreadEnd) -> None:
        self.channel = channel
        self._owner = os.getpid()

    def close(self) -> None:
        """Make it end by itself. Another thread waits for it."""
        self.channel.close()

    def end(self, grace: float) -> str:
        """Close the connection, wait at most that many seconds, if there is a way to end it, and say how it ended."""
        if os.getpid() != self._owner:
            return ""
        self.channel.close()
        return self._await_end(grace)

    def _await_end(self, grace: float) -> str:
        raise NotImplementedError

    def engines(self) -> list[Engine]:
        """Return the engine that runs its stages, if that is in this process's threads."""
        return []


class _Outside(RegionWorker):
    """A worker in another process or interpreter. An interpreter cannot be killed, so its end is awaited for long.

    ``start`` closes the worker's end of the channel here, once the worker has its own.
    """

    channel: ParentEnd

    def __init__(self, start: Callable[[WorkerEnd], Running], *, in_interpreter: bool = False) -> None:
        super().__init__(ParentEnd())
        self._in_interpreter = in_interpreter
        try:
            self._running = start(self.channel.worker_end)
        except BaseException:
            self.channel.close()
            raise
        try:
            self.channel.started(self._running.signs, in_interpreter=in_interpreter)
        except BaseException:
            # No descriptors or addresses are left, say.
            self.end(grace=0.0)
            raise
        _LIVE.add(self)
        before_children_are_awaited(_close_all, WORKERS)

    def _await_end(self, grace: float) -> str:
        how = self._running.await_end(None if self._in_interpreter and grace else grace)
        self._running.close()
        _LIVE.discard(self)
        return how


_LIVE: WeakSet[_Outside] = WeakSet()


def _close_all() -> None:
    for worker in list(_LIVE):
        worker.close()


atexit.register(_close_all)


# When the fork server is killed, its socket is closed a moment before the system tells that it has ended. Only then
# multiprocessing starts another one. That many seconds are given to both, in which it is tried that often; and that
# many requests may be lost with a server.
_SERVER_SECONDS = 5.0
_TRY_AGAIN = 0.02
_MOST_LOST = 3

_INHERITED = (
    'Workers cannot be started by "forkserver" here: this process was forked from one that has a fork server, which '
    'starts no processes for others. Leave `mp_context` out, or give "spawn".'
)
_TAKEN = (
    'Workers cannot be started by "forkserver" any more: the fork server has ended, and something else than '
    "multiprocessing has waited for it, as `os.waitpid(-1, ...)` does, or SIGCHLD is ignored. So multiprocessing "
    'starts no other. Give `mp_context="spawn"`.'
)


class WorkerKind:
    """Starts the workers of a region."""

    def __init__(self) -> None:
        self._region = ""
        # The work, pickled unless workers share this process's objects.
        self._payload: Any = None

    def prepare(self, region: str, job: Job) -> None:
        """Note the work, before any worker is started.

        Raises:
            TypeError: If something that the workers need cannot be sent to them.
            RuntimeError: If such workers cannot run here.
        """
        raise NotImplementedError

    def start(self, number: int) -> RegionWorker:
        raise NotImplementedError

    def let_go(self) -> list[Any]:
        """Return the work, and forget it."""
        payload, self._payload = self._payload, None
        return [payload]


class Processes(WorkerKind):
    def __init__(self, config: ProcessPoolExecutorConfig) -> None:
        super().__init__()
        self._method = config.mp_context or _method()

    def prepare(self, region: str, job: Job) -> None:
        if multiprocessing.current_process().daemon:
            raise RuntimeError(
                f"{region} needs processes, and this process, {multiprocessing.current_process().name!r}, is a "
                "daemon, which may not have children. Start it with daemon=False."
            )
        self._region = region
        if self._method != "fork":
            self._payload = packed(region, job)
            return
        self._payload = job
        if threading.active_count() > 1:
            warnings.warn(
                f"{region} forks its workers from a process that has threads, whose locks may stay locked "
                "there. Leave `mp_context` out, or start the pipeline before other threads.",
                RuntimeWarning,
                stacklevel=2,
            )

    def start(self, number: int) -> RegionWorker:
        context = multiprocessing.get_context(self._method)

        def start(end: WorkerEnd) -> RunningProcess:
            return RunningProcess(context, run_worker, (end, self._payload), f"spdl_region_{number}", [end.close])

        give_up_at = monotonic() + _SERVER_SECONDS
        lost = 0
        while True:
            try:
                return _Outside(start)
            except ChildProcessError as error:
                if self._method != "forkserver":
                    raise
                raise RuntimeError(_INHERITED if was_forked() else _TAKEN) from error
            except (ConnectionError, EOFError) as error:
                if self._method != "forkserver":
                    raise
                # One that ends may have taken the request, and so may a process that ends before it has read its work.
                lost += not isinstance(error, ConnectionRefusedError)
                if lost == _MOST_LOST or monotonic() >= give_up_at:
                    raise RuntimeError(
                        f"The processes of {self._region} cannot be started: multiprocessing's fork server, or what it "
                        f"starts, ends at once each time ({type(error).__name__}: {error}). Fix the error that it "
                        'prints, if any, or give `mp_context="spawn"`, which needs no server.'
                    ) from error
            sleep(_TRY_AGAIN)


def _method() -> str:
    methods = multiprocessing.get_all_start_methods()
    preferred = ("spawn", "fork") if was_forked() else ("forkserver", "spawn", "fork")
    return next(method for method in preferred if method in methods)


_PROGRAM = """
from spdl.pipeline._elsewhere.region_worker import begin_interpreter
begin_interpreter(payload, out, into)
"""


class Interpreters(WorkerKind):
    _make: Callable[[], Any]

    def prepare(self, region: str, job: Job) -> None:
        self._make = interpreter_maker("InterpreterPoolExecutorConfig")
        for what, function in _functions_of(job):
            _check_place(what, region, function)
        _check_place("The initializer", region, job.initializer)
        self._payload = packed(region, job)

    def start(self, number: int) -> RegionWorker:  # noqa: ARG002 - as the others.
        def start(end: WorkerEnd) -> RunningInterpreter:
            out, into = end.numbers()
            return RunningInterpreter(
                self._make, _PROGRAM, {"payload": self._payload, "out": out, "into": into}, [end.close]
            )

        return _Outside(start, in_interpreter=True)


def _check_place(what: str, region: str, value: object) -> None:
    named = value if hasattr(value, "__qualname__") else type(value)
    if getattr(named, "__module__", None) == "__main__":
        raise TypeError(
            f"{what} cannot be sent to the workers of {region}: it is of the main module, which other "
            "interpreters do not have. Move it to a module that can be imported."
        )


class Threads(WorkerKind):
    def prepare(self, region: str, job: Job) -> None:
        self._region = region
        self._payload = job
        # If there is one that cannot be, it shows here.
        replace_stages(job.stages, self._own)

    def start(self, number: int) -> RegionWorker:
        job = self._payload
        return RegionThreads(job._replace(stages=replace_stages(job.stages, self._own)), number)

    def _own(self, stage: StageConfig) -> StageConfig:
        """Return a stage with its own aggregator, since this keeps what has come to one worker."""
        if not isinstance(stage, AggregateConfig):
            return stage
        try:
            return replace(stage, op=deepcopy(stage.op))
        except Exception as error:
            raise TypeError(
                f"Stage {stage.name!r}: the aggregator cannot be copied for each of the workers of {self._region}: "
                f"{error}. Put it after the region, or give its class a method `__deepcopy__`."
            ) from error


class RegionThreads(RegionWorker):
    def __init__(self, job: Job, number: int) -> None:
        channel, end = make_thread_channel()
        super().__init__(channel)
        self._engines: list[Engine] = []
        name = f"spdl_region_{job.pipeline_id}_{number}"
        self._thread = Thread(target=run_worker_here, args=(end, job, self._engines), name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.channel.close()
            end.close()
            raise

    def _await_end(self, grace: float) -> str:
        self._thread.join(grace and None)
        return "its threads still run" if self._thread.is_alive() else "its threads have ended"

    def engines(self) -> list[Engine]:
        return list(self._engines)


def kind_of_workers(config: ExecutorConfig) -> WorkerKind:
    if isinstance(config, ProcessPoolExecutorConfig):
        return Processes(config)
    return Interpreters() if isinstance(config, InterpreterPoolExecutorConfig) else Threads()
