"""What loaders need of the pipelines that they run, and users do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spdl.pipeline._engine.checkpoint import uneven_stage

from .waiting import took

if TYPE_CHECKING:
    from spdl.pipeline._metrics.loader_arguments import LoaderArguments

    from .iterator import PipelineIterator
    from .pipeline import Pipeline

__all__ = [
    "acknowledge",
    "begin_at",
    "changes_counts",
    "fingerprint_of",
    "has_changed_counts",
    "is_parents",
    "take",
    "take_back",
    "tell_arguments",
]

T = TypeVar("T")


def begin_at(pipeline: Pipeline[Any], epoch: int, *, resumed: bool) -> None:
    """Number the epochs of a pipeline from another number on. Called before the start.

    Args:
        pipeline: The pipeline.
        epoch: The number of its first epoch.
        resumed: Whether some of the items of that epoch were received in an earlier run, or all of them.
    """
    pipeline._engine.number_epochs(epoch, resumed=resumed)  # noqa: SLF001 - as all here, on behalf of the pipeline.


def take(items: PipelineIterator[T]) -> tuple[Any, T]:
    """Return the next item with its root. It counts as received only when that is acknowledged.

    Raises:
        StopIteration, TimeoutError, PipelineFailure: As ``next`` raises them.
    """
    return items._take()  # noqa: SLF001


def acknowledge(pipeline: Pipeline[Any], root: Any) -> None:
    """Note that an item has been received that `take` has returned.

    Args:
        pipeline: The pipeline.
        root: What came with the item.
    """
    took(pipeline._engine, root)  # noqa: SLF001


def take_back(pipeline: Pipeline[Any], root: Any) -> None:
    """Note that an item that `take` has returned was lost before anybody received it, acknowledged or not.

    Args:
        pipeline: The pipeline.
        root: What came with the item.
    """
    pipeline._engine.lineage.take_back(root)  # noqa: SLF001


def fingerprint_of(pipeline: Pipeline[Any]) -> dict[str, Any]:
    """Return what a state is compared by: the stages' names, and what the sources are known by."""
    return pipeline._fingerprint()  # noqa: SLF001


def changes_counts(pipeline: Pipeline[Any]) -> str | None:
    """Return the name of a stage that may change how many items there are. Called before the start."""
    return pipeline._changes_counts()  # noqa: SLF001


def has_changed_counts(pipeline: Pipeline[Any]) -> str | None:
    """Return the name of a stage that is seen to have changed how many items there are."""
    return uneven_stage(pipeline._engine)  # noqa: SLF001


def is_parents(pipeline: Pipeline[Any]) -> bool:
    """Return whether the pipeline runs in the process that this one was forked from: here is a copy of no use."""
    return pipeline._engine.forked  # noqa: SLF001


def tell_arguments(pipeline: Pipeline[Any], arguments: LoaderArguments) -> None:
    """Note what the arguments of the pipeline's loader change of it: verdicts are given in terms of these.

    Called before the start.

    Args:
        pipeline: The pipeline.
        arguments: What a user of the loader may change, and how.
    """
    pipeline._engine.is_run_by(arguments)  # noqa: SLF001
