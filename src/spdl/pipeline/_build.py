"""From a declaration to a pipeline that can be started."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn, TypeVar

from spdl._cores import available_cores

from ._check import check_flag, check_int, check_number, positive, refuse, show
from ._defs import PipelineConfig
from ._locate import callers_line
from ._pipeline import Pipeline

if TYPE_CHECKING:
    from ._policy import MaxFailures

__all__ = ["build_pipeline"]

T = TypeVar("T")

# Ops that wait for a disk or a network leave cores to others, hence some more threads than cores. So many threads that
# the interpreter spends its time on handing the GIL around help nobody; who has that many cores says so.
_MORE_THAN_CORES = 4
_MOST_THREADS = 32


def build_pipeline(
    pipeline_cfg: PipelineConfig[T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: None = None,
    task_hook_factory: None = None,
    stage_id: int = 0,
    background_tasks: None = None,
    use_thread_output_queue: bool = False,
) -> Pipeline[T]:
    """Build a pipeline from its declaration. No thread is started yet.

    Args:
        pipeline_cfg: What `PipelineBuilder.get_config` returns, or made of the records in `spdl.pipeline.defs`.
        num_threads: As for `PipelineBuilder.build`.
        max_failures: As for `PipelineBuilder.build`.
        report_stats_interval: As for `PipelineBuilder.build`.
        queue_class: As for `PipelineBuilder.build`.
        task_hook_factory: As for `PipelineBuilder.build`.
        stage_id: As for `PipelineBuilder.build`.
        background_tasks: Part of the contract and not served yet.
        use_thread_output_queue: As for `PipelineBuilder.build`.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.
        NotImplementedError: If an argument that is not served yet asks for something.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Merge, PipelineConfig, Pipe, SinkConfig, SourceConfig
        >>> odd, even = (PipelineConfig(SourceConfig(range(i, 6, 2)), [], SinkConfig(1)) for i in (1, 0))
        >>> config = PipelineConfig(Merge([odd, even]), [Pipe(lambda x: 10 * x)], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(sorted(pipeline))
        [0, 10, 20, 30, 40, 50]
    """
    # Declaring pipelines needs none of the modules that run them, which are half of the package.
    from ._plan import plan  # noqa: PLC0415
    from ._policy import check_max_failures  # noqa: PLC0415

    if not isinstance(pipeline_cfg, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(pipeline_cfg, "get_config") else ""
        refuse(TypeError, "pipeline_cfg", "a PipelineConfig", pipeline_cfg, remedy)
    threads = _default_threads() if num_threads is None else positive("num_threads", num_threads)
    limit = check_max_failures(max_failures)
    first_id = check_int("stage_id", stage_id, least=0)
    check_flag("use_thread_output_queue", use_thread_output_queue)
    if check_number("report_stats_interval", report_stats_interval) > 0:
        _not_served("report_stats_interval", report_stats_interval)
    for name, value in (
        ("queue_class", queue_class),
        ("task_hook_factory", task_hook_factory),
        ("background_tasks", background_tasks),
    ):
        if value is not None:
            _not_served(name, value)
    description = str(pipeline_cfg)
    try:
        engine = plan(pipeline_cfg, num_threads=threads, max_failures=limit, stage_id=first_id)
    except Exception as error:
        error.add_note(description)
        raise
    return Pipeline(engine, description)


def _default_threads() -> int:
    return min(_MOST_THREADS, math.ceil(available_cores()) + _MORE_THAN_CORES)


def _not_served(argument: str, value: object) -> NoReturn:
    raise NotImplementedError(f"`{argument}` is not served yet, got {show(value)} ({callers_line()}). Leave it out.")
