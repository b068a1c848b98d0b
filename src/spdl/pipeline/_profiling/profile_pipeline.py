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

    The first items of the source are read (for 5 seconds at most). With these the first stage is run in a pipeline of
    its own, once for each concurrency and with as many threads, from the first item on, and again from the first one
    when all were given. Its results are what the next stage is given, and so on.

    * A measurement takes between 0.2 and 1 second, and ends as soon as the ops have ended 8 times as often as the stage
      works on items at once (100 times at least). It takes longer only where the ops themselves do.
    * Ops are called far more often than there are items. One that fails on an item that it has seen, since it uses its
      items up or must not do its work twice, is given each item once: more of them at the higher concurrencies. Ops
      that take more than a second are not tried.
    * ``aggregate`` and ``disaggregate`` are measured at a concurrency of 1 only.
    * Executors are left out, with their initializers: all synchronous ops run on threads, which is what tells whether
      they need processes.
      Timeouts, limits of failures and ``on_failure`` are left out as well. Retries are not.
    * Of a fork each path is measured with what the router sends there; a path that gets nothing is left out with a
      warning. Pipelines that are merged are measured one after the other, and what they give is merged.
    * Items that an op fails on are logged and left out, as always.

    No more than ``num_inputs`` items of a stage, and as many of its results, are held in memory at a time; that is the
    number to lower where items are large.

    Args:
        cfg: The declaration, as made by `PipelineBuilder.get_config`.
        num_inputs: How many items are read from each source, at most. A source that is its own iterator, as a generator
            is, has lost them; of a continuous one a single epoch is read.
        callback: Called with each stage's result as soon as there is one; what it raises ends the profile. None takes
            the process's default, see `spdl.pipeline.config.set_default_profile_callback`.
        hook: Wrapped around the profile and each measurement. None takes the process's default, see
            `spdl.pipeline.config.set_default_profile_hook`.

    Returns:
        A list with a result for each stage, in the order of declaration. It is empty where the environment variable
        ``LOCAL_RANK`` is set and not 0, so that one process of each machine in a distributed job profiles.

    Raises:
        TypeError, ValueError: If an argument is not as described.
        RuntimeError: If the source gives nothing, a stage gives nothing for the next one or fails on every item, or one
            that uses its items up has too few.
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
