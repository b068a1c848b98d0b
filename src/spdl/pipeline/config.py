"""What the whole process has by default: hooks, queues, callbacks, background tasks, the form of the log.

What is set here counts for pipelines that are built afterwards; those that exist keep what they have. The form of the
log alone changes at once, for all. Settings are the process's own: other processes, those that a pipeline starts among
them, have theirs.

Environment variables:

* ``SPDL_PIPELINE_DIAGNOSTIC_MODE``: profile pipelines instead of running them; see `is_diagnostic_mode_enabled`.
* ``SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS``: how many items that takes; see `diagnostic_mode_num_sources`.
* ``SPDL_PIPELINE_COMPACT_LOG``: log each failure in one line; see `set_compact_log`.

Example:
    >>> from spdl.pipeline import PipelineBuilder, config
    >>> config.set_default_build_callback(lambda declaration: print("about to build", len(declaration.pipes), "stage"))
    >>> pipeline = PipelineBuilder().add_source([1, 2]).pipe(str).add_sink().build(num_threads=1)
    about to build 1 stage
    >>> config.set_default_build_callback(None)
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

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
