"""Running a pipeline in a worker process."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, refuse
from spdl.pipeline._declare.records import PipelineConfig
from spdl.pipeline._pipeline.builder import PipelineBuilder
from spdl.pipeline._plan.pipeline_ids import next_pipeline_id

from .executors import declare_executors
from .iterate import check_initializers, iterate_in_subprocess
from .pipeline_runner import PipelineRunner
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

    Each ``for`` builds and runs the pipeline anew in the same process. With a continuous source it is built once and
    works ahead between passes, and each ``for`` is one epoch; leaving one early gives the epoch up, and the next
    begins with a new pipeline.

    The process begins with the state that the random generators have here at this moment, which this does not change:
    those of `random`, of numpy's functions and of torch on the CPU, where the libraries have been imported.

    Thread and process pools of the standard library that stages were given are made anew there, with the same
    arguments. Other executors go there as they are; unless the process is forked, they must be picklable. The defaults
    of `spdl.pipeline.config` go there only if it is forked: an initializer can set them.

    In diagnostic mode (see `spdl.pipeline.config.is_diagnostic_mode_enabled`) the pipeline is profiled there when you
    first read, and this process ends by `SystemExit` with the status 0, as it would if the pipeline were here.

    Args:
        config_or_builder: What `PipelineBuilder.get_config` returns. A builder works, with a UserWarning. Unless the
            process is forked, it is pickled, with the source and the ops.
        num_threads: As for `build_pipeline`, which is called there with this and the following arguments.
        max_failures: As for `build_pipeline`.
        report_stats_interval: As for `build_pipeline`.
        queue_class: As for `build_pipeline`.
        task_hook_factory: As for `build_pipeline`.
        background_tasks: As for `build_pipeline`.
        use_thread_output_queue: As for `build_pipeline`.
        **kwargs: Given to `iterate_in_subprocess`: ``buffer_size``, ``initializer``, ``mp_context``, ``timeout``,
            ``daemon``, ``arena``.

    Returns:
        As `iterate_in_subprocess`.

    Raises:
        TypeError, ValueError: If an argument is not as described; if a stage's pool was used already, or is one of
            processes and ``daemon`` is true.
        PipelineFailure: Where you iterate, if the pipeline there failed. As after any error, the process ends.
        Exception: What `iterate_in_subprocess` raises besides.

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
        message = "Give run_pipeline_in_subprocess what `get_config()` of the builder returns, and not the builder."
        warnings.warn(message, UserWarning, stacklevel=2)
        config = config.get_config()
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config_or_builder", "a PipelineConfig", config)
    initializers = check_initializers(kwargs.pop("initializer", None))
    kwargs["daemon"] = check_flag("daemon", kwargs.get("daemon", False))
    arguments = {
        "num_threads": num_threads,
        "max_failures": max_failures,
        "report_stats_interval": report_stats_interval,
        "queue_class": queue_class,
        "task_hook_factory": task_hook_factory,
        "background_tasks": background_tasks,
        "use_thread_output_queue": use_thread_output_queue,
    }
    # One number is used up, so that what the processes log of their pipelines can be told apart.
    pipeline_id = next_pipeline_id()  # Shared with the process that builds it.
    runner = PipelineRunner(declare_executors(config, daemon=kwargs["daemon"]), arguments, pipeline_id)
    return iterate_in_subprocess(runner, initializer=[RandomStates().restore, *initializers], **kwargs)
