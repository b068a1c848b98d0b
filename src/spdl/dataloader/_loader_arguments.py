"""What the arguments of `DataLoader` change of its pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.pipeline._metrics.loader_arguments import LoaderArguments, StageArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GATHERING", "function_arguments", "loader_arguments", "transfer_arguments"]

GATHERING = StageArguments(
    otherwise=(
        "Results are put into a batch one by one: let `src` yield lists of names, and `preprocessor` load such a list, "
        "with `batch_size=None`."
    )
)
_TUNES_ITSELF = 'It has `num_threads="auto"`, which goes on trying: watch again first.'


def function_arguments(num_threads: int | None, unit: str, *, on_loop: bool) -> StageArguments:
    """Return what may be changed of the preprocessor or the aggregator.

    Args:
        num_threads: The argument; None if the loader chooses.
        unit: What the function works on.
        on_loop: Whether it is an async function.
    """
    return StageArguments(
        unit=unit,
        slot="coroutine" if on_loop else "thread",
        several="num_threads",
        value=num_threads or 0,
        note=_TUNES_ITSELF if num_threads is None else "",
        in_place_of_processes="`PyTorchDataLoader` has an argument for that, and so have stages of `PipelineBuilder`.",
        order='output_order="completion"',
    )


def transfer_arguments(unit: str, *, on_loop: bool) -> StageArguments:
    """Return what may be changed of the transfer: nothing."""
    return StageArguments(
        unit=unit,
        slot="coroutine" if on_loop else "thread",
        otherwise=f"One {unit} is transferred at a time, which no argument changes: have `transfer_fn` copy less.",
    )


def loader_arguments(loader: str, num_threads: int | None, stages: Sequence[StageArguments]) -> LoaderArguments:
    """Return what may be changed of the whole loader.

    Args:
        loader: Its class.
        num_threads: The argument; None if the loader chooses.
        stages: What may be changed of its stages.
    """
    return LoaderArguments(
        loader,
        tuple(stages),
        source="Let `src` yield only names or numbers, and do the work in `preprocessor`: several of it run at once.",
        source_several="num_threads" if num_threads is not None else "",
    )
