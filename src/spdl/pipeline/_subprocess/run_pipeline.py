"""Runs a pipeline in a worker process."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, refuse
from spdl.pipeline._declare.records import PipelineConfig
from spdl.pipeline._pipeline.builder import PipelineBuilder

from .checks import check_initializers
from .iterate import iterate_in_subprocess
from .pipeline_runner import make_runner
from .random_states import RandomStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._background.task import BackgroundTaskFactory
    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._plan.instrumentation import QueueClass, TaskHookFactory

    from .iterable import SubprocessIterable

__all__ = ["run_pipeline_in_subprocess"]

T = TypeVar("T")


def run_pipeline_in_subprocess(
    config_or_builder: PipelineConfig[T] | PipelineBuilder[Any, T],
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
    """Run a pipeline in a process of its own, which has its own GIL, and iterate it from here.

    Each ``for`` builds and runs a new pipeline in the same process. With a continuous source, the pipeline is built
    once and works ahead between passes, and each ``for`` is one epoch. If you leave a loop early, that epoch is
    abandoned, and the next one begins with a new pipeline.

    The process begins with the current state of the random generators of this process, which does not change here:
    those of `random`, of numpy's functions and of torch on the CPU, if these libraries have been imported.

    Stages' thread and process pools of the standard library are recreated there with the same arguments. Other
    executors are sent as they are; unless the process is forked, they must be picklable. The defaults of
    `spdl.pipeline.config` apply there only if the process is forked. Otherwise an initializer can set them.

    In diagnostic mode (see `spdl.pipeline.config.is_diagnostic_mode_enabled`) the pipeline is profiled there when you
    first read, and this process ends by `SystemExit` with the status 0, as it would if the pipeline ran here.

    Args:
        config_or_builder: The declaration that `PipelineBuilder.get_config` returns. A builder works too, with a
            UserWarning. Unless the process is forked, the declaration is pickled, with the source and the ops.
        num_threads: As for `build_pipeline`, which is called there with this and the following arguments.
        max_failures: As for `build_pipeline`.
        report_stats_interval: As for `build_pipeline`.
        queue_class: As for `build_pipeline`.
        task_hook_factory: As for `build_pipeline`.
        background_tasks: As for `build_pipeline`.
        use_thread_output_queue: As for `build_pipeline`.
        **kwargs: Passed to `iterate_in_subprocess`: ``buffer_size``, ``initializer``, ``mp_context``, ``timeout``,
            ``daemon``, ``arena``.

    Returns:
        An iterable that owns the worker process, as `iterate_in_subprocess` returns it.

    Raises:
        TypeError, ValueError: If an argument is not as described; if a stage's pool has been used, or is a process pool
            and ``daemon`` is true.
        PipelineFailure: While you iterate, if the pipeline there failed. As after any error, the process ends.
        Exception: Anything else that `iterate_in_subprocess` raises.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
        >>> config = PipelineBuilder().add_source(range(3)).pipe(float).add_sink().get_config()
        >>> items = run_pipeline_in_subprocess(config, num_threads=1, mp_context="fork")
        >>> list(items), list(items)
        ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
        >>> items.close()
    """
    config = config_or_builder
    if isinstance(config, PipelineBuilder):
        message = "Pass the result of the builder's `get_config()` to run_pipeline_in_subprocess, not the builder."
        warnings.warn(message, UserWarning, stacklevel=2)
        config = config.get_config()
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config_or_builder", "a PipelineConfig", config)
    initializers = check_initializers(kwargs.pop("initializer", None))
    kwargs["daemon"] = check_flag("daemon", kwargs.get("daemon", False))
    runner = make_runner(
        config,
        daemon=kwargs["daemon"],
        num_threads=num_threads,
        max_failures=max_failures,
        report_stats_interval=report_stats_interval,
        queue_class=queue_class,
        task_hook_factory=task_hook_factory,
        background_tasks=background_tasks,
        use_thread_output_queue=use_thread_output_queue,
    )
    return iterate_in_subprocess(runner, initializer=[RandomStates().restore, *initializers], **kwargs)
