"""The names and signatures of spdl 0.8.0, which code written for it relies on, and what ours have besides.

The table was taken from the released reference by `inspect.signature`; it is not generated from ours.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from spdl import pipeline
from spdl.pipeline import Pipeline, PipelineBuilder, defs

if TYPE_CHECKING:
    from types import ModuleType

REFERENCE = {
    "PipelineBuilder": "()",
    "PipelineBuilder.add_source": "(self, source, *, continuous=False)",
    "PipelineBuilder.pipe": "(self, op, /, *, concurrency=1, executor=None, name=None, output_order='completion', "
    "max_failures=None)",
    "PipelineBuilder.aggregate": "(self, input, /, *, drop_last=False)",
    "PipelineBuilder.disaggregate": "(self)",
    "PipelineBuilder.path_variants": "(self, router, paths, name=None, batched=False)",
    "PipelineBuilder.add_sink": "(self, buffer_size=3)",
    "PipelineBuilder.get_config": "(self)",
    "PipelineBuilder.build": "(self, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
    "task_hook_factory=None, stage_id=0, use_thread_output_queue=False)",
    "build_pipeline": "(pipeline_cfg, /, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
    "task_hook_factory=None, stage_id=0, background_tasks=None, use_thread_output_queue=False)",
    "BackgroundTask": "()",
    "BackgroundTask.run": "(self)",
    "Pipeline.start": "(self, *, timeout=None, **kwargs)",
    "Pipeline.stop": "(self, *, timeout=None)",
    "Pipeline.auto_stop": "(self, *, timeout=None)",
    "Pipeline.get_item": "(self, *, timeout=None)",
    "Pipeline.get_iterator": "(self, *, timeout=None)",
    "Pipeline.__iter__": "(self)",
    "PipelineFailure": "(errs)",
    "PipelineFailure.derive": "(self, excs)",
    "StageInfo": "(pipeline_id, stage_id, stage_name, concurrency=None)",
    "cache_iterator": "(src, num_caches, *, return_caches_after=None, stop_after=None, delete_src=True)",
    "is_eof": "(item)",
    "iterate_in_subprocess": "(fn, *, buffer_size=3, initializer=None, mp_context=None, timeout=None, daemon=False, "
    "arena=None)",
    "run_pipeline_in_subprocess": "(config_or_builder, /, *, num_threads, max_failures=-1, report_stats_interval=-1, "
    "queue_class=None, task_hook_factory=None, background_tasks=None, use_thread_output_queue=False, **kwargs)",
    "is_epoch_end": "(item)",
    "defs.Pipe": "(op, /, *, concurrency=1, executor=None, name=None, output_order='completion', max_failures=None)",
    "defs.Aggregate": "(input, /, *, drop_last=False)",
    "defs.Aggregator.accumulate": "(self, item)",
    "defs.Aggregator.flush": "(self)",
    "defs.Collate": "(n)",
    "defs.Disaggregate": "()",
    "defs.DisaggregateConfig": "(name)",
    "defs.Merge": "(pipeline_configs, op=None)",
    "defs.MergeConfig": "(pipeline_configs, op=None)",
    "defs.PathVariants": "(router, paths, name=None, batched=False)",
    "defs.PathVariantsConfig": "(name, router, paths, batched=False)",
    "defs.AggregateConfig": "(name, op, drop_last=False)",
    "defs.PipelineConfig": "(src, pipes, sink)",
    "defs.SourceConfig": "(source, continuous=False)",
    "defs.SinkConfig": "(buffer_size)",
}

_PIPE = "(*, retries=0, retry_delay=0.1, on_failure=None, timeout=None, on_timeout='report')"

# Parameters that the reference does not have, and those that it requires.
OURS = {
    "PipelineBuilder.add_source": "(*, dedicated_thread=False)",
    "PipelineBuilder.pipe": _PIPE,
    "PipelineBuilder.build": "(*, num_threads=None)",
    "build_pipeline": "(*, num_threads=None)",
    "run_pipeline_in_subprocess": "(*, num_threads=None)",
    "defs.Pipe": _PIPE,
    "defs.SourceConfig": "(dedicated_thread=False)",
    "defs.DisaggregateConfig": "(name='disaggregate')",
}

# Public names of the reference that are not served yet.
LATER = {
    pipeline: """
        AsyncQueue PriorityExecutorEntrypoint PriorityInterpreterPoolExecutor
        PriorityProcessPoolExecutor PriorityThreadPoolExecutor ProcessGroupResourceUsage ProcessGroupStatsMonitor
        ProfileHook ProfileResult QueuePerfStats SharedMemoryRingBuffer SharedMemorySegmentPool StatsQueue TaskHook
        TaskPerfStats TaskStatsHook create_task iterate_in_subinterpreter profile_pipeline
        run_pipeline_in_subinterpreter
    """,
    defs: """
        ExecutorConfig InterpreterPoolExecutorConfig MAIN_PROCESS PlacementConfig ProcessPoolExecutorConfig
    """,
}
NOW = {
    pipeline: """
        BackgroundTask BackgroundTaskFactory Pipeline PipelineBuilder PipelineFailure StageInfo build_pipeline
        cache_iterator is_eof is_epoch_end
    """,
    defs: """
        Aggregate AggregateConfig Aggregator Collate Disaggregate DisaggregateConfig Merge MergeConfig PathVariants
        PathVariantsConfig Pipe PipeConfig PipelineConfig SinkConfig SourceConfig
    """,
}


def parse(signature: str) -> list[inspect.Parameter]:
    namespace: dict[str, Any] = {}
    exec(f"def function{signature}: pass", namespace)  # noqa: S102 - the texts above.
    return list(inspect.signature(namespace["function"]).parameters.values())


def parameters_of(function: Any) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found]


def find(name: str) -> Any:
    found: Any = pipeline
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", REFERENCE)
def test_signature(name: str) -> None:
    expected = {parameter.name: parameter for parameter in parse(REFERENCE[name])}
    added = {parameter.name: parameter for parameter in parse(OURS.get(name, "()"))}
    assert {parameter.name: parameter for parameter in parameters_of(find(name))} == {**expected, **added}


@pytest.mark.parametrize("name", [name for name in REFERENCE if name in OURS])
def test_what_ours_have_besides_comes_last(name: str) -> None:
    """So that positional arguments mean the same."""
    reference = [parameter.name for parameter in parse(REFERENCE[name])]
    assert [parameter.name for parameter in parameters_of(find(name))][: len(reference)] == reference


@pytest.mark.parametrize("module", NOW)
def test_public_names(module: ModuleType) -> None:
    assert set(NOW[module].split()) <= set(module.__all__)
    assert not set(LATER[module].split()) & set(dir(module)), "They are served now: test their signatures."


@pytest.mark.parametrize("module", [pipeline, defs])
def test_all_is_all_there(module: ModuleType) -> None:
    namespace: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", namespace)  # noqa: S102 - fails in the reference.
    assert set(module.__all__) == {name for name in namespace if name != "__builtins__"}


@pytest.mark.parametrize(
    ("generic", "arguments"),
    [
        (Pipeline, int),
        (Pipeline, ...),
        (PipelineBuilder, (int, str)),
        (PipelineBuilder, (int, ...)),
        (defs.SourceConfig, int),
        (defs.PipeConfig, (int, str)),
        (defs.AggregateConfig, int),
        (defs.DisaggregateConfig, int),
        (defs.PathVariantsConfig, int),
        (defs.PipelineConfig, int),
        (defs.SinkConfig, int),
        (defs.Collate, int),
    ],
)
def test_subscripts_at_run_time(generic: Any, arguments: Any) -> None:
    """Annotations are evaluated unless a module says otherwise."""
    alias = generic[arguments]
    assert alias.__origin__ is generic
    assert alias.__args__ == (arguments if isinstance(arguments, tuple) else (arguments,))
