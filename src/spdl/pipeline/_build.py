"""From a declaration to a pipeline that can be started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._locate import callers_line
from ._pipeline import Pipeline

if TYPE_CHECKING:
    from ._defs import PipelineConfig
    from ._policy import MaxFailures

__all__ = ["build_pipeline"]


# Arguments of the public contract that later releases will serve, and the values that ask for nothing.
_LATER: dict[str, object] = {
    "report_stats_interval": -1,
    "queue_class": None,
    "task_hook_factory": None,
    "stage_id": 0,
    "background_tasks": None,
}


def build_pipeline(
    pipeline_cfg: PipelineConfig,
    /,
    *,
    num_threads: int,
    max_failures: MaxFailures = -1,
    use_thread_output_queue: bool = False,  # noqa: ARG001 - the sink is such a queue already.
    **later: object,
) -> Pipeline[Any]:
    """Build a pipeline from its declaration. No thread is started yet.

    Args:
        pipeline_cfg: What `PipelineBuilder.get_config` returns, or made of the records in `spdl.pipeline.defs`.
        num_threads: As for `PipelineBuilder.build`.
        max_failures: As for `PipelineBuilder.build`.
        use_thread_output_queue: Accepted for compatibility: the consumer always reads from its own thread.
        **later: ``report_stats_interval``, ``queue_class``, ``task_hook_factory``, ``stage_id`` and
            ``background_tasks`` are part of the contract and not served yet.

    Raises:
        NotImplementedError: If one of those asks for something.
        TypeError: If an argument is unknown.

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

    for name, value in later.items():
        if name not in _LATER:
            raise TypeError(f"build_pipeline() got an unexpected keyword argument {name!r} ({callers_line()}).")
        if value != _LATER[name]:
            raise NotImplementedError(f"`{name}` is not served yet, got {value!r} ({callers_line()}). Leave it out.")
    return Pipeline(plan(pipeline_cfg, num_threads=num_threads, max_failures=max_failures), str(pipeline_cfg))
