"""Iterates an object in another interpreter of this process, and runs pipelines there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import refuse
from spdl.pipeline._declare.records import PipelineConfig
from spdl.pipeline._nodes.executors.process_work import pack
from spdl.pipeline._transport.interpreter import interpreter_maker

from .checks import check_common, check_initializers
from .iterable import SubprocessIterable
from .pipeline_runner import make_runner
from .random_states import RandomStates
from .worker_interpreter import WorkerInterpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spdl.pipeline._background.task import BackgroundTaskFactory
    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._plan.instrumentation import QueueClass, TaskHookFactory

    from .checks import Initializer

__all__ = ["iterate_in_subinterpreter", "run_pipeline_in_subinterpreter"]

T = TypeVar("T")


def iterate_in_subinterpreter(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Initializer | Sequence[Initializer] | None = None,
    timeout: float | None = None,
) -> SubprocessIterable[T]:
    """Make an iterable in another interpreter of this process, which has a GIL of its own, and iterate it from here.

    It works like `iterate_in_subprocess`, in a thread of this process instead of another process. Starting it takes
    less time, and it cannot be killed: while code there does not return, the process does not end. Modules are imported
    anew there. Many that have native parts cannot be imported, numpy and PyTorch among them; the error names them. A
    memoryview of booleans, integers or floats arrives as a numpy array.

    It requires Python 3.14 or later, and was never run there: its tests use what 3.13 has for the same purpose.

    Args:
        fn: Makes the iterable. It is pickled, so it must be importable by its name, and not be of the main module.
        buffer_size: As for `iterate_in_subprocess`.
        initializer: As for `iterate_in_subprocess`.
        timeout: As for `iterate_in_subprocess`.

    Returns:
        An iterable that owns the interpreter, as `iterate_in_subprocess` returns it.

    Raises:
        RuntimeError: If this Python is older than 3.14.
        TypeError, ValueError: If an argument is not as described; the message names it.
        Exception: Anything else that `iterate_in_subprocess` raises.

    Example:
        >>> import sys
        >>> from spdl.pipeline import iterate_in_subinterpreter
        >>> if sys.version_info >= (3, 14):
        ...     items = iterate_in_subinterpreter(list)
        ...     items.close()
    """
    make = interpreter_maker("iterate_in_subinterpreter")
    buffer_size, initializers, timeout = check_common(fn, buffer_size, initializer, timeout)
    worker = WorkerInterpreter(make, pack((fn, initializers)), buffer_size)
    iterable: SubprocessIterable[T] = SubprocessIterable(worker, buffer_size, timeout)
    iterable.await_ready()
    return iterable


def run_pipeline_in_subinterpreter(
    config: PipelineConfig[T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: QueueClass | None = None,
    task_hook_factory: TaskHookFactory | None = None,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    **kwargs: Any,
) -> SubprocessIterable[T]:
    """Run a pipeline in another interpreter of this process, which has a GIL of its own, and iterate it from here.

    It works like `run_pipeline_in_subprocess`, and has the limits of `iterate_in_subinterpreter`. Of random generators,
    only the state of `random` is carried over.

    Args:
        config: The declaration. It is pickled, with the source and the ops.
        num_threads: As for `build_pipeline`, which is called there with this and the following arguments.
        max_failures: As for `build_pipeline`.
        report_stats_interval: As for `build_pipeline`.
        queue_class: As for `build_pipeline`.
        task_hook_factory: As for `build_pipeline`.
        background_tasks: As for `build_pipeline`.
        use_thread_output_queue: As for `build_pipeline`.
        **kwargs: Passed to `iterate_in_subinterpreter`: ``buffer_size``, ``initializer``, ``timeout``.

    Returns:
        An iterable that owns the interpreter, as `iterate_in_subinterpreter` returns it.

    Raises:
        RuntimeError: If this Python is older than 3.14.
        Exception: Anything else that `run_pipeline_in_subprocess` raises.

    Example:
        >>> import sys
        >>> from spdl.pipeline import PipelineBuilder, run_pipeline_in_subinterpreter
        >>> config = PipelineBuilder().add_source(range(3)).pipe(float).add_sink().get_config()
        >>> if sys.version_info >= (3, 14):
        ...     items = run_pipeline_in_subinterpreter(config, num_threads=1)
        ...     items.close()
    """
    interpreter_maker("run_pipeline_in_subinterpreter")
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config", "a PipelineConfig", config)
    initializers = check_initializers(kwargs.pop("initializer", None))
    runner = make_runner(
        config,
        daemon=False,
        num_threads=num_threads,
        max_failures=max_failures,
        report_stats_interval=report_stats_interval,
        queue_class=queue_class,
        task_hook_factory=task_hook_factory,
        background_tasks=background_tasks,
        use_thread_output_queue=use_thread_output_queue,
    )
    initializers = [RandomStates(only_python=True).restore, *initializers]
    return iterate_in_subinterpreter(runner, initializer=initializers, **kwargs)
