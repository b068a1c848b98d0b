"""Builds a pipeline from its declaration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, check_int, check_max_failures, check_number, positive, refuse
from spdl._cores import available_cores
from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import place_of
from spdl.pipeline._declare.records import PipelineConfig
from spdl.pipeline._failures.error_text import log_error

from .gil_turned_on import warn_of_gil
from .pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._background.task import BackgroundTaskFactory
    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._plan.instrumentation import QueueClass, TaskHookFactory

__all__ = ["build_pipeline"]

T = TypeVar("T")

# Ops that wait for a disk or a network leave cores idle, hence more threads than cores. With too many threads, the
# interpreter would spend its time on passing the GIL around. Users with that many cores can set `num_threads`.
_MORE_THAN_CORES = 4
_MOST_THREADS = 32


def build_pipeline(
    pipeline_cfg: PipelineConfig[T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: QueueClass | None = None,
    task_hook_factory: TaskHookFactory | None = None,
    stage_id: int = 0,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    autotune: bool = False,
    max_bytes: int | None = None,
) -> Pipeline[T]:
    """Build a pipeline from its declaration. No thread is started yet.

    If the environment variable ``SPDL_PIPELINE_DIAGNOSTIC_MODE`` asks for it (see
    `spdl.pipeline.config.is_diagnostic_mode_enabled`), the pipeline will not run. Instead its first read calls
    `profile_pipeline`, writes the results to the log (or to stderr if the log does not show INFO), and ends the process
    with status 0 (by `SystemExit`).

    Args:
        pipeline_cfg: The declaration: returned by `PipelineBuilder.get_config`, or made from the records in
            `spdl.pipeline.defs`.
        num_threads: As for `PipelineBuilder.build`.
        max_failures: As for `PipelineBuilder.build`.
        report_stats_interval: As for `PipelineBuilder.build`.
        queue_class: As for `PipelineBuilder.build`.
        task_hook_factory: As for `PipelineBuilder.build`.
        stage_id: As for `PipelineBuilder.build`.
        background_tasks: Tasks that run beside the stages, on the pipeline's event loop: callables without arguments
            that return a `BackgroundTask`, such as subclasses of it. The default tasks of the process
            (`spdl.pipeline.config.set_default_background_tasks`) precede them.
        use_thread_output_queue: As for `PipelineBuilder.build`.
        autotune: As for `PipelineBuilder.build`.
        max_bytes: In bytes; as for `PipelineBuilder.build`.

    Returns:
        The pipeline. It starts at `Pipeline.start`, at `Pipeline.auto_stop`, or at the first read.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Merge, PipelineConfig, Pipe, SinkConfig, SourceConfig
        >>> odd, even = (PipelineConfig(SourceConfig(range(i, 6, 2)), [], SinkConfig(1)) for i in (1, 0))
        >>> config = PipelineConfig(Merge([odd, even]), [Pipe(lambda x: 10 * x)], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(sorted(pipeline))
        [0, 10, 20, 30, 40, 50]
    """
    # Imported here because declaring pipelines needs none of these modules, which are half of the package.
    from spdl.pipeline._metrics.record_request import answer_by  # noqa: PLC0415
    from spdl.pipeline._plan.graph import plan  # noqa: PLC0415
    from spdl.pipeline._plan.instrumentation import Instrumentation  # noqa: PLC0415
    from spdl.pipeline._tracing.asked import answer  # noqa: PLC0415
    from spdl.pipeline._tracing.engines import add_engine  # noqa: PLC0415

    if not isinstance(pipeline_cfg, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(pipeline_cfg, "get_config") else ""
        refuse(TypeError, "pipeline_cfg", "a PipelineConfig", pipeline_cfg, remedy)
    _call_back(pipeline_cfg)
    threads = _default_threads() if num_threads is None else positive("num_threads", num_threads)
    limit = check_max_failures(max_failures)
    first_id = check_int("stage_id", stage_id, least=0)
    check_flag("use_thread_output_queue", use_thread_output_queue)
    autotune = check_flag("autotune", autotune)
    bound = None if max_bytes is None else positive("max_bytes", max_bytes)
    tasks = defaults.get_default_background_tasks() or []
    if background_tasks is not None:
        tasks += defaults.check_background_tasks("background_tasks", background_tasks)
    interval = check_number("report_stats_interval", report_stats_interval)
    for name, value in (("queue_class", queue_class), ("task_hook_factory", task_hook_factory)):
        if value is not None and not callable(value):
            refuse(TypeError, name, "callable or None", value)
    warn_of_gil()
    description = str(pipeline_cfg)
    try:
        engine = plan(
            pipeline_cfg,
            num_threads=threads,
            max_failures=limit,
            max_bytes=bound,
            stage_id=first_id,
            instrumentation=Instrumentation(task_hook_factory, queue_class, interval),
            background=tasks,
        )
    except Exception as error:
        error.add_note(description)
        raise
    if (folder := defaults.trace_folder()) and defaults.chosen_recorder() is None:
        from spdl.observe._trace.folder import record_into_folder  # noqa: PLC0415 - `spdl record` asks for it.

        record_into_folder(folder)
    # Before the look for a recorder: whoever begins to record now sees to it, or it is seen here.
    add_engine(engine)
    answer_by(answer)
    if (recorder := defaults.chosen_recorder()) is not None:
        from spdl.pipeline._tracing.attach import attach  # noqa: PLC0415 - rarely needed.

        attach(engine, recorder)
    if defaults.is_diagnostic_mode_enabled():
        from spdl.pipeline._profiling.diagnosis import Diagnosis  # noqa: PLC0415 - rarely needed.

        return Diagnosis(engine, pipeline_cfg)
    tuner = None
    if autotune:
        from spdl.tune._tuner import Tuner  # noqa: PLC0415 - others have no use for it.

        tuner = Tuner(engine, threads_pinned=num_threads is not None)
    return Pipeline(engine, description, pipeline_cfg, tuner)


def _call_back(config: PipelineConfig[Any]) -> None:
    callback = defaults.get_default_build_callback()
    if callback is None:
        return
    try:
        callback(config)
    except Exception as error:  # noqa: BLE001 - no error of it may keep the pipeline from being built.
        log_error(error, "The default build callback %s raised, which is ignored", place_of(callback))


def _default_threads() -> int:
    return min(_MOST_THREADS, math.ceil(available_cores()) + _MORE_THAN_CORES)
