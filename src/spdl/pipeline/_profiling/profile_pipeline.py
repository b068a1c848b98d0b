"""Measures each stage of a pipeline alone."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from spdl._check import positive, refuse
from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.records import PipelineConfig

from .profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from .profile_hook import ProfileHook
    from .profile_result import ProfileResult

__all__ = ["profile_pipeline"]


def profile_pipeline(
    cfg: PipelineConfig[Any],
    num_inputs: int = 1000,
    *,
    callback: Callable[[ProfileResult], None] | None = None,
    hook: ProfileHook | None = None,
) -> list[ProfileResult]:
    """Measure how fast each stage is alone, at concurrencies of 32, 16, 8, 4 and 1.

    The first items of the source are read (for 5 seconds at most). Then the first stage runs in a pipeline of its own,
    once for each concurrency and with as many threads. It gets these items in order, and from the first one again when
    all were given. Its results are the input of the next stage, and so on.

    * A measurement takes between 0.2 and 1 second. It ends as soon as the number of ops that have ended is 8 times the
      concurrency, and at least 100. It takes longer only if the ops themselves do.
    * Ops are called far more often than there are items. An op may fail on an item that it has seen, because it uses
      its items up or must not do its work twice. Such an op gets each item once, and more of the items at the higher
      concurrencies. To find such ops, each is first tried on an item several times, unless it takes more than a second.
    * ``aggregate`` and ``disaggregate`` are measured at a concurrency of 1 only.
    * Executors and their initializers are left out: all synchronous ops run on threads, which shows whether they need
      processes. Timeouts, ``max_failures`` and ``on_failure`` are left out as well. Retries are not.
    * In a fork, each path is measured with the items that the router sends there. A path that gets no items is left out
      with a warning. Pipelines that are merged are measured one after the other, and their results are merged.
    * Items that an op fails on are left out. One failure of each cause is logged, with its traceback.

    At most ``num_inputs`` items of a stage, and as many of its results, are in memory at a time. Lower this number if
    the items are large.

    Args:
        cfg: The declaration, as made by `PipelineBuilder.get_config`.
        num_inputs: How many items are read from each source, at most. A source that can be iterated only once, like a
            generator, has lost these items afterwards. Of a continuous source one epoch is read.
        callback: Called with each stage's result as soon as it is there. An exception that it raises ends the profile.
            None takes the process's default, see `spdl.pipeline.config.set_default_profile_callback`.
        hook: Wrapped around the profile and each measurement. None takes the process's default, see
            `spdl.pipeline.config.set_default_profile_hook`.

    Returns:
        A list with a result for each stage, in the order of declaration. It is empty if the environment variable
        ``LOCAL_RANK`` is set and not 0, so that one process of each machine in a distributed job profiles.

    Raises:
        TypeError, ValueError: If an argument is not as described.
        RuntimeError: If the source gives no items, if a stage fails on every item or gives no results for the next one,
            or if a stage that uses its items up gets too few.
        PipelineFailure: If a source, an aggregator, a router or the op of a merge raised.

    Example:
        >>> import time
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(32)).pipe(lambda _: time.sleep(0.01) or 1, name="fetch")
        >>> (result,) = profile_pipeline(builder.add_sink().get_config())
        >>> [it.concurrency for it in result.stats], result.gil
        ([32, 16, 8, 4, 1], 'waits')
        >>> fastest, *_, slowest = sorted(result.stats, key=lambda it: it.qps)
        >>> fastest.concurrency, slowest.qps > 4 * fastest.qps
        (1, True)
    """
    if not isinstance(cfg, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(cfg, "get_config") else ""
        refuse(TypeError, "cfg", "a PipelineConfig", cfg, remedy)
    num_inputs = positive("num_inputs", num_inputs)
    if callback is None:
        callback = defaults.get_default_profile_callback()
    elif not callable(callback):
        refuse(TypeError, "callback", "callable or None", callback)
    defaults.check_profile_hook(hook)
    if hook is None:
        hook = defaults.get_default_profile_hook()
    if os.environ.get("LOCAL_RANK", "").strip() not in ("", "0"):
        return []
    profile = Profile(num_inputs, callback, hook)
    with nullcontext() if hook is None else hook.pipeline_profile_hook():
        profile.of_pipeline(cfg)
    return profile.results
