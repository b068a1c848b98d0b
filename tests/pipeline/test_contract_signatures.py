"""Test the names and signatures of spdl 0.8.0, which code written for it relies on, and our additions.

The table was taken from the released reference by `inspect.signature`. It is not generated from our code.
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
    "PipelineBuilder.pipe": (
        "(self, op, /, *, concurrency=1, executor=None, name=None, output_order='completion', max_failures=None)"
    ),
    "PipelineBuilder.aggregate": "(self, input, /, *, drop_last=False)",
    "PipelineBuilder.disaggregate": "(self)",
    "PipelineBuilder.to": "(self, target, /, *, buffer_size=1)",
    "PipelineBuilder.path_variants": "(self, router, paths, name=None, batched=False)",
    "PipelineBuilder.add_sink": "(self, buffer_size=3)",
    "PipelineBuilder.get_config": "(self)",
    "PipelineBuilder.build": (
        "(self, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
        "task_hook_factory=None, stage_id=0, use_thread_output_queue=False)"
    ),
    "build_pipeline": (
        "(pipeline_cfg, /, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
        "task_hook_factory=None, stage_id=0, background_tasks=None, use_thread_output_queue=False)"
    ),
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
    "iterate_in_subprocess": (
        "(fn, *, buffer_size=3, initializer=None, mp_context=None, timeout=None, daemon=False, arena=None)"
    ),
    "run_pipeline_in_subprocess": (
        "(config_or_builder, /, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
        "task_hook_factory=None, background_tasks=None, use_thread_output_queue=False, **kwargs)"
    ),
    "is_epoch_end": "(item)",
    "AsyncQueue": "(info, *, buffer_size=1)",
    "AsyncQueue.stage_hook": "(self)",
    "PriorityExecutorEntrypoint": "(owner, priority)",
    "PriorityExecutorEntrypoint.submit": "(self, fn, /, *args, **kwargs)",
    "PriorityInterpreterPoolExecutor.get_executor": "(self, *, priority=None)",
    "PriorityProcessPoolExecutor": "(max_workers=None, **kwargs)",
    "PriorityProcessPoolExecutor.shutdown": "(self, wait=True, cancel_futures=False)",
    "PriorityProcessPoolExecutor.get_executor": "(self, *, priority=None)",
    "PriorityThreadPoolExecutor": "(max_workers=None, thread_name_prefix='', initializer=None, initargs=())",
    "PriorityThreadPoolExecutor.shutdown": "(self, wait=True, cancel_futures=False)",
    "PriorityThreadPoolExecutor.get_executor": "(self, *, priority=None)",
    "ProcessGroupResourceUsage": (
        "(pid, pgid, cpu_percent=None, rss_bytes=None, pss_bytes=None, private_bytes=None, "
        "disk_read_bytes=None, disk_write_bytes=None, num_procs=None, net_rx_bytes=None, net_tx_bytes=None)"
    ),
    "ProcessGroupStatsMonitor": "(callback, interval=60.0, mp_context=None)",
    "ProcessGroupStatsMonitor.run": "(self)",
    "ProfileHook": "()",
    "ProfileHook.stage_profile_hook": "(self, stage, concurrency)",
    "ProfileHook.pipeline_profile_hook": "(self)",
    "ProfileResult": "(name, stats)",
    "QueuePerfStats": (
        "(elapsed, num_items, ave_put_time, ave_get_time, p90_put_time, p99_put_time, p90_get_time, "
        "p99_get_time, occupancy_rate)"
    ),
    "SharedMemoryRingBuffer": "(capacity, *, acquire_timeout=60.0)",
    "SharedMemorySegmentPool": "(segment_size, count, *, acquire_timeout=60.0)",
    "StatsQueue": "(info, *, buffer_size=1, interval=-1)",
    "StatsQueue.get": "(self)",
    "StatsQueue.put": "(self, item)",
    "StatsQueue.stage_hook": "(self)",
    "StatsQueue.interval_stats_callback": "(self, stats)",
    "TaskHook": "()",
    "TaskHook.stage_hook": "(self)",
    "TaskHook.task_hook": "(self, input_item=None)",
    "TaskPerfStats": "(num_tasks, num_failures, ave_time, p90_time, p99_time)",
    "TaskStatsHook": "(info, interval=-1)",
    "TaskStatsHook.stage_hook": "(self)",
    "TaskStatsHook.task_hook": "(self, input_item=None)",
    "TaskStatsHook.interval_stats_callback": "(self, stats)",
    "create_task": (
        "(coro, name=None, log_cancelled=False, suppress_repeated_logs=False, suppression_threshold=5, "
        "suppression_warning_interval=100)"
    ),
    "iterate_in_subinterpreter": "(fn, *, buffer_size=3, initializer=None, timeout=None)",
    "profile_pipeline": "(cfg, num_inputs=1000, *, callback=None, hook=None)",
    "run_pipeline_in_subinterpreter": (
        "(config, /, *, num_threads, max_failures=-1, report_stats_interval=-1, queue_class=None, "
        "task_hook_factory=None, background_tasks=None, use_thread_output_queue=False, **kwargs)"
    ),
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
    "defs.ExecutorConfig": "(max_workers=None, initializer=None, initargs=())",
    "defs.ProcessPoolExecutorConfig": "(max_workers=None, initializer=None, initargs=(), mp_context=None)",
    "defs.InterpreterPoolExecutorConfig": "(max_workers=None, initializer=None, initargs=())",
    "defs.PlacementConfig": "(target, name='placement', buffer_size=1)",
}

_PIPE = "(*, retries=0, retry_delay=0.1, on_failure=None, timeout=None, on_timeout='report')"

# Parameters that the reference does not have, and those that it requires and we do not.
OURS = {
    "PipelineBuilder.add_source": "(*, dedicated_thread=False)",
    "PipelineBuilder.pipe": _PIPE,
    "PipelineBuilder.build": "(*, num_threads=None, autotune=False, max_bytes=None)",
    "build_pipeline": "(*, num_threads=None, autotune=False, max_bytes=None)",
    "run_pipeline_in_subprocess": "(*, num_threads=None)",
    "run_pipeline_in_subinterpreter": "(*, num_threads=None)",
    "ProfileResult": "(flow=1.0, is_async=False, failures=(), num_items=0, hand_over_seconds=None)",
    "defs.Pipe": _PIPE,
    "defs.SourceConfig": "(dedicated_thread=False)",
    "defs.DisaggregateConfig": "(name='disaggregate')",
    "defs.ProcessPoolExecutorConfig": "(on_death='fail')",
}

# Names that the reference has and we do not have yet. Remove a name here when it is added.
NOT_YET = {
    pipeline: "",
    defs: "",
}
# Names without a signature, or whose signature is no part of the contract: PipeConfig is made by Pipe, and
# PriorityInterpreterPoolExecutor is a mere placeholder before Python 3.14.
OTHERS = {
    pipeline: ["Pipeline", "BackgroundTaskFactory", "PriorityInterpreterPoolExecutor"],
    defs: ["Aggregator", "MAIN_PROCESS", "PipeConfig"],
}


def names_in(module: ModuleType) -> set[str]:
    """Return the reference's names: those in its table, and the others."""
    prefix = "defs." if module is defs else ""
    listed = {
        name.removeprefix(prefix).partition(".")[0] for name in REFERENCE if name.startswith("defs.") == bool(prefix)
    }
    return listed | set(OTHERS[module]) | set(NOT_YET[module].split())


SERVED = [name for name in REFERENCE if name.partition(".")[0] not in NOT_YET[pipeline].split()]


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


@pytest.mark.parametrize("name", SERVED)
def test_signature(name: str) -> None:
    expected = {parameter.name: parameter for parameter in parse(REFERENCE[name])}
    added = {parameter.name: parameter for parameter in parse(OURS.get(name, "()"))}
    assert {parameter.name: parameter for parameter in parameters_of(find(name))} == {**expected, **added}


@pytest.mark.parametrize("name", [name for name in SERVED if name in OURS])
def test_what_ours_have_besides_comes_last(name: str) -> None:
    """Positional arguments must mean the same."""
    reference = [parameter.name for parameter in parse(REFERENCE[name])]
    assert [parameter.name for parameter in parameters_of(find(name))][: len(reference)] == reference


@pytest.mark.parametrize("module", NOT_YET)
def test_public_names(module: ModuleType) -> None:
    later = set(NOT_YET[module].split())
    assert names_in(module) - later <= set(module.__all__)
    assert not later & set(dir(module)), "They are served now: take them out of NOT_YET."


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
