"""Recreates the executors of stages in the process that runs the pipeline, since executors cannot be sent there."""

# ruff: noqa: SLF001 - the standard library's pools have no public attributes for their arguments.

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from spdl.pipeline._declare.records import MergeConfig, PathVariantsConfig, PipeConfig, PipelineConfig
from spdl.pipeline._transport.watch import end_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = ["declare_executors", "make_executors"]


class DeclaredExecutor(Executor):
    """A stand-in for an unused executor, with the arguments to make another one like it.

    Args:
        kind: The executor's class.
        arguments: The arguments that it was made with.
    """

    def __init__(self, kind: type[Executor], arguments: dict[str, Any]) -> None:
        self._kind = kind
        self._arguments = arguments

    def make(self) -> Executor:
        """Make the executor in this process."""
        arguments = self._arguments
        if self._kind is ProcessPoolExecutor:
            arguments = _process_arguments(**arguments)
        return self._kind(**arguments)


def declare_executors(config: PipelineConfig[Any], *, daemon: bool) -> PipelineConfig[Any]:
    """Replace the standard library's pools, which cannot leave this process, with stand-ins.

    Args:
        config: The pipeline.
        daemon: Whether the pipeline will run in a process that may not have children.

    Raises:
        ValueError: If a pool has been used, or cannot be recreated in the other process.
    """
    declared: dict[int, DeclaredExecutor] = {}

    def declare(stage: PipeConfig[Any, Any], executor: Executor) -> Executor:
        if id(executor) not in declared:
            found = _declare(stage.name, executor, daemon=daemon)
            if found is None:
                return executor
            declared[id(executor)] = found
        return declared[id(executor)]

    return _replace_executors(config, declare)


def make_executors(config: PipelineConfig[Any]) -> tuple[PipelineConfig[Any], list[Executor]]:
    """Replace the stand-ins with executors of this process. Stages that shared an executor share one again.

    Returns:
        The pipeline, and the executors. The caller must shut them down.
    """
    made: dict[int, Executor] = {}

    def make(_: PipeConfig[Any, Any], executor: Executor) -> Executor:
        if not isinstance(executor, DeclaredExecutor):
            return executor
        if id(executor) not in made:
            made[id(executor)] = executor.make()
        return made[id(executor)]

    return _replace_executors(config, make), list(made.values())


_Replacing: TypeAlias = "Callable[[PipeConfig[Any, Any], Executor], Executor]"


def _replace_executors(config: PipelineConfig[Any], replacing: _Replacing) -> PipelineConfig[Any]:
    src = config.src
    if isinstance(src, MergeConfig):
        src = replace(src, pipeline_configs=tuple(_replace_executors(it, replacing) for it in src.pipeline_configs))
    return replace(config, src=src, pipes=_replace_in_stages(config.pipes, replacing))


def _replace_in_stages(stages: Sequence[Any], replacing: _Replacing) -> tuple[Any, ...]:
    replaced: list[Any] = []
    for stage in stages:
        if isinstance(stage, PathVariantsConfig):
            paths = tuple(_replace_in_stages(path, replacing) for path in stage.paths)
            replaced.append(replace(stage, paths=paths))
        elif isinstance(stage, PipeConfig) and stage.executor is not None:
            replaced.append(replace(stage, executor=replacing(stage, stage.executor)))
        else:
            replaced.append(stage)
    return tuple(replaced)


def _declare(stage: str, executor: Executor, *, daemon: bool) -> DeclaredExecutor | None:
    """Return a stand-in for the executor, or None for other kinds of executors, which are pickled as they are."""
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
        initializer, initargs = getattr(context, "initializer", None), getattr(context, "initargs", ())
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
    return {
        **arguments,
        "mp_context": multiprocessing.get_context(arguments["mp_context"]),
        "initializer": _begin_process,
        "initargs": (os.getpid(), *user),
    }


def _begin_process(parent: int, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    # Otherwise a pool's processes would wait for work for ever: each holds both ends of the pipe that it comes from.
    end_with(parent, grace=0.0)
    if initializer is not None:
        initializer(*initargs)


def _refuse(stage: str, executor: Executor, why: str) -> NoReturn:
    raise ValueError(
        f"Stage {stage!r}: its executor, a {type(executor).__name__}, is recreated in the process that runs the "
        f"pipeline; this one {why}."
    )
