"""The defaults of the whole process: hooks, queues, callbacks, background tasks, and the format of the log.

A setting applies to pipelines that are built afterwards; existing ones keep theirs. Only the format of the log changes
at once, for all pipelines. Each process has its own settings, including the processes that a pipeline starts.

Environment variables:

* ``SPDL_PIPELINE_DIAGNOSTIC_MODE``: profile pipelines instead of running them; see `is_diagnostic_mode_enabled`.
* ``SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS``: how many items a profile uses; see `diagnostic_mode_num_sources`.
* ``SPDL_PIPELINE_COMPACT_LOG``: log each failure in one line; see `set_compact_log`.

Example:
    >>> from spdl.pipeline import PipelineBuilder, config
    >>> config.set_default_build_callback(lambda declaration: print("about to build", len(declaration.pipes), "stage"))
    >>> pipeline = PipelineBuilder().add_source([1, 2]).pipe(str).add_sink().build(num_threads=1)
    about to build 1 stage
    >>> config.set_default_build_callback(None)
"""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.

from ._declare.defaults import (
    diagnostic_mode_num_sources,
    get_default_background_tasks,
    get_default_build_callback,
    get_default_hook_class,
    get_default_profile_callback,
    get_default_profile_hook,
    get_default_queue_class,
    is_diagnostic_mode_enabled,
    set_compact_log,
    set_default_background_tasks,
    set_default_build_callback,
    set_default_hook_class,
    set_default_profile_callback,
    set_default_profile_hook,
    set_default_queue_class,
)

__all__ = [
    "diagnostic_mode_num_sources",
    "get_default_background_tasks",
    "get_default_build_callback",
    "get_default_hook_class",
    "get_default_profile_callback",
    "get_default_profile_hook",
    "get_default_queue_class",
    "is_diagnostic_mode_enabled",
    "set_compact_log",
    "set_default_background_tasks",
    "set_default_build_callback",
    "set_default_hook_class",
    "set_default_profile_callback",
    "set_default_profile_hook",
    "set_default_queue_class",
]
