"""Splits items among the paths of a fork, and merges results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import is_async
from spdl.pipeline._declare.records import PipelineConfig, SinkConfig, SourceConfig
from spdl.pipeline._declare.stages import Merge, Pipe

from .measure import bare_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.pipeline._declare.records import PathVariantsConfig

__all__ = ["join", "merged", "split"]


def split(fork: PathVariantsConfig[Any], items: Sequence[Any]) -> list[list[Any]]:
    """Ask the router for each item's path, and return the items of each path.

    Raises:
        PipelineFailure: If the router raised, or named no path.
    """
    route = _route_async(fork) if is_async(fork.router) else _route(fork)
    shares: list[list[Any]] = [[] for _ in fork.paths]
    # One item after the other, as in the pipeline, since a router may depend on the order.
    stage = Pipe(route, name=fork.name, output_order="input", max_failures=0)
    with bare_pipeline(SourceConfig(items), [stage], 1).auto_stop() as pipeline:
        for item, where in pipeline:
            if fork.batched:
                for index, share in enumerate(shares):
                    share.append([it for it, path in zip(item, where, strict=True) if path == index])
            else:
                shares[where].append(item)
    return shares


def _route(fork: PathVariantsConfig[Any]) -> Callable[[Any], Any]:
    return lambda item: (item, _checked(fork, item, fork.router(item)))


def _route_async(fork: PathVariantsConfig[Any]) -> Callable[[Any], Any]:
    async def ask(item: Any) -> tuple[Any, Any]:
        return item, _checked(fork, item, await fork.router(item))

    return ask


def _checked(fork: PathVariantsConfig[Any], item: Any, where: Any) -> Any:
    paths = range(len(fork.paths))
    named = list(where) if fork.batched else [where]
    if any(path not in paths for path in named) or (fork.batched and len(named) != len(item)):
        what = "an index for each element of the batch" if fork.batched else "an index"
        raise IndexError(
            f"The router of {fork.name!r} must return {what}, each from 0 to {len(paths) - 1}, got {where!r}."
        )
    return named if fork.batched else int(where)


def join(fork: PathVariantsConfig[Any], results: Sequence[list[Any]]) -> list[Any]:
    """Return the input of the stage downstream of a fork, made from the results of the fork's paths."""
    if fork.batched:
        # The original batches are not known any more. They do not matter for a measurement.
        batches = itertools.zip_longest(*results, fillvalue=())
        return [batch for shares in batches if (batch := list(itertools.chain.from_iterable(shares)))]
    return merged([items for items in results if items], None)


def merged(branches: Sequence[list[Any]], op: Any) -> list[Any]:
    """Return the input of the stage downstream of a merge: the branches' results, merged as in the pipeline.

    Raises:
        PipelineFailure: If the op raised.
    """
    if not branches:
        return []
    configs = [PipelineConfig(SourceConfig(items), [], SinkConfig[Any](1)) for items in branches]
    merge = Merge(configs, op)
    with bare_pipeline(merge, [], 1).auto_stop() as pipeline:
        return list(pipeline)
