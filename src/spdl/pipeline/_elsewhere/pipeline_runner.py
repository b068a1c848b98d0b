"""Runs a pipeline in a worker process, as an iterable that can be iterated again."""

# ruff: noqa: SLF001 - the standard library's pools have no public attributes for their arguments.

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from types import AsyncGeneratorType, GeneratorType
from typing import Any, NoReturn

from spdl._processes import was_forked
from spdl.pipeline._build import build_pipeline
from spdl.pipeline._declare.records import MergeConfig, PipeConfig, PipelineConfig, every_source, replace_stages
from spdl.pipeline._elsewhere.serve import iterated_twice
from spdl.pipeline._engine.lifetime import next_pipeline_id, number_pipelines_from
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._stages.process_work import end_with


class RandomStates:
    """A snapshot of the states. Taking it draws nothing from the generators.

    It holds the states of `random`, and unless it should hold ``only_python``'s, of numpy's functions (not of its
    Generators) and of torch on the CPU, if these libraries have been imported.
    """

    def __init__(self, *, only_python: bool = False) -> None:
        self._python = random.getstate()
        loaded: Mapping[str, Any] = {} if only_python else sys.modules
        numpy_random, torch = loaded.get("numpy.random"), loaded.get("torch")
        self._numpy = None if numpy_random is None else numpy_random.get_state()
        # As bytes: a pickled tensor would refer to memory of a process that may end.
        self._torch = None if torch is None else bytes(torch.get_rng_state().tolist())

    def restore(self) -> None:
        """Set the generators of this process. This imports the libraries that the other process had imported."""
        random.setstate(self._python)
        if self._numpy is not None:
            import numpy as np  # noqa: PLC0415 - only if the other process had imported it.

            np.random.set_state(self._numpy)  # noqa: NPY002 - the global state is the one to carry over.
        if self._torch is not None:
            import torch  # noqa: PLC0415 - only if the other process had imported it.

            torch.set_rng_state(torch.tensor(list(self._torch), dtype=torch.uint8))


class DeclaredExecutor(Executor):
    """A stand-in for an unused executor, with its class and the arguments to make another one like it."""

    def __init__(self, kind: type[Executor], arguments: dict[str, Any]) -> None:
        self._kind = kind
        self._arguments = arguments

    def make(self) -> Executor:
        arguments = self._arguments
        if self._kind is ProcessPoolExecutor:
            arguments = _process_arguments(**arguments)
        return self._kind(**arguments)


def declare_executors(config: PipelineConfig[Any], *, daemon: bool) -> PipelineConfig[Any]:
    """Replace the standard library's pools, which cannot leave this process, with stand-ins.

    Raises a ValueError if a pool has been used, or cannot be made again in the other process, which may be a daemon.
    """
    declared: dict[int, DeclaredExecutor] = {}

    def declare(stage: str, executor: Executor) -> Executor:
        if id(executor) not in declared:
            found = _declare(stage, executor, daemon=daemon)
            if found is None:
                return executor
            declared[id(executor)] = found
        return declared[id(executor)]

    return _replace_executors(config, declare)


def make_executors(config: PipelineConfig[Any]) -> tuple[PipelineConfig[Any], list[Executor]]:
    """Replace the stand-ins with executors, which are returned too: the caller must shut them down.

    Stages that shared an executor share one again.
    """
    made: dict[int, Executor] = {}

    def make(_: str, executor: Executor) -> Executor:
        if not isinstance(executor, DeclaredExecutor):
            return executor
        if id(executor) not in made:
            made[id(executor)] = executor.make()
        return made[id(executor)]

    return _replace_executors(config, make), list(made.values())


def _replace_executors(
    config: PipelineConfig[Any], replacing: Callable[[str, Executor], Executor]
) -> PipelineConfig[Any]:
    """Return a declaration with other executors, of the names of stages and what they have."""

    def own(stage: Any) -> Any:
        if isinstance(stage, PipeConfig) and stage.executor is not None:
            return replace(stage, executor=replacing(stage.name, stage.executor))
        return stage

    src = config.src
    if isinstance(src, MergeConfig):
        src = replace(src, pipeline_configs=tuple(_replace_executors(it, replacing) for it in src.pipeline_configs))
    pipes: Any = config.pipes  # With the marks of regions.
    return replace(config, src=src, pipes=replace_stages(pipes, own))


def _declare(stage: str, executor: Executor, *, daemon: bool) -> DeclaredExecutor | None:
    """Return a stand-in for the executor, or None for other kinds of executors, which are pickled unchanged."""
    if _is_used(executor):
        _refuse(stage, executor, "has been used, and its running calls cannot leave this process. Give a new one")
    interpreters = sys.modules.get("concurrent.futures.interpreter")
    kind = type(executor)
    if kind is ProcessPoolExecutor:
        if daemon:
            _refuse(stage, executor, "cannot have processes there, because daemon=True forbids them. Leave that out")
        return DeclaredExecutor(kind, _describe_processes(executor))
    if kind is ThreadPoolExecutor or (interpreters is not None and kind is interpreters.InterpreterPoolExecutor):
        return DeclaredExecutor(kind, _describe_threads(stage, executor))
    return None


def _is_used(executor: Executor) -> bool:
    # This covers subclasses too.
    if isinstance(executor, ThreadPoolExecutor):
        return bool(executor._threads or executor._shutdown)
    if isinstance(executor, ProcessPoolExecutor):
        internals: Any = executor
        return bool(internals._processes or internals._executor_manager_thread or internals._shutdown_thread)
    return False


def _describe_threads(stage: str, executor: Any) -> dict[str, Any]:
    if hasattr(executor, "_initializer"):
        initializer, initargs = executor._initializer, executor._initargs
    elif not hasattr(executor, "_create_worker_context"):
        _refuse(stage, executor, "does not reveal its initializer in this version of Python. Give no initializer")
    else:  # Python 3.14 and later.
        context = executor._create_worker_context()
        # That of interpreters has a call, or None.
        call = getattr(context, "initdata", None) or (None, ())
        initializer, initargs = getattr(context, "initializer", call[0]), getattr(context, "initargs", call[1])
    return {
        "max_workers": executor._max_workers,
        "thread_name_prefix": executor._thread_name_prefix,
        "initializer": initializer,
        "initargs": initargs,
    }


def _describe_processes(executor: Any) -> dict[str, Any]:
    return {
        "max_workers": executor._max_workers,
        "mp_context": executor._mp_context.get_start_method(),
        "initializer": executor._initializer,
        "initargs": executor._initargs,
        "max_tasks_per_child": executor._max_tasks_per_child,
    }


def _process_arguments(**arguments: Any) -> dict[str, Any]:
    """Return arguments for a pool whose processes end with the process that runs the pipeline, even if it is killed."""
    import multiprocessing  # noqa: PLC0415 - only process pools need it.

    user = (arguments["initializer"], arguments["initargs"])
    method = arguments["mp_context"]
    if method == "forkserver" and was_forked():
        method = "spawn"
    return {
        **arguments,
        "mp_context": multiprocessing.get_context(method),
        "initializer": _begin_process,
        "initargs": (os.getpid(), *user),
    }


def _begin_process(parent: int, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    # Otherwise a pool's processes would wait for work forever: each holds both ends of the pipe that it comes from.
    end_with(parent, grace=0.0)
    if initializer is not None:
        initializer(*initargs)


def _refuse(stage: str, executor: Executor, why: str) -> NoReturn:
    raise ValueError(
        f"Stage {stage!r}: its executor, a {type(executor).__name__}, is recreated in the process that runs the "
        f"pipeline; this one {why}."
    )


class PipelineRunner:
    """Builds a pipeline for each pass, elsewhere. With a continuous source, one continues from pass to pass.

    The process that runs it may be a daemon, which may have no children: a ValueError says which executor needs some.
    """

    def __init__(self, config: PipelineConfig[Any], *, daemon: bool, **arguments: Any) -> None:
        self._config = declare_executors(config, daemon=daemon)
        self._arguments = arguments
        # Of this process, so that the logs of the two name different pipelines.
        self._pipeline_id = next_pipeline_id()
        self._sources = list(every_source(config))
        # The pipeline for the next pass, if it was built already.
        self._ready: Pipeline[Any] | None = None
        self._passes = 0
        self._executors: list[Executor] = []

    def __call__(self) -> PipelineRunner:
        """Build the first pipeline, in the worker process, so that a mistake in an argument shows before any pass."""
        number_pipelines_from(self._pipeline_id)  # No pipeline was built here before.
        self._config, self._executors = make_executors(self._config)
        self._ready = self._build()
        return self

    def __iter__(self) -> Iterator[Any]:
        self._passes += 1
        if self._sources[0].continuous:
            return self._run_epoch()
        for source in self._sources if self._passes > 1 else ():
            if isinstance(source.source, GeneratorType | AsyncGeneratorType):
                raise iterated_twice("The source", source.source)
        return self._run()

    def close(self) -> None:
        """Stop the pipeline and the executors. A process waits for its children at exit, so pools must be ended."""
        if self._ready is not None:
            self._ready.stop()
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)

    def _build(self) -> Pipeline[Any]:
        return build_pipeline(self._config, **self._arguments)

    def _run(self) -> Iterator[Any]:
        pipeline, self._ready = self._ready or self._build(), None
        empty = True
        with pipeline.auto_stop():
            for item in pipeline:
                empty = False
                yield item
        if empty and self._passes > 1:
            for source in self._sources:
                if isinstance(source.source, Iterator):
                    raise iterated_twice("The source", source.source)

    def _run_epoch(self) -> Iterator[Any]:
        pipeline, self._ready = self._ready or self._build(), None
        complete = False
        try:
            yield from pipeline
            complete = True
        finally:
            if complete:
                self._ready = pipeline
            else:
                # The items under way belong to an epoch that was left early.
                pipeline.stop()
