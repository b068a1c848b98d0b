"""The check that all ranks take the same number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter
from typing import Any

from spdl._check import positive, refuse
from spdl._signatures import signature
from spdl.testing._reading import check_numbers

_ACCEPTED = ("rank", "world_size", "batch_size")


def assert_equal_steps(
    make: Callable[..., Iterable[Any]],
    world: Sequence[int] = (1, 2, 3, 5),
    batch: Sequence[int] = (1, 4, 7),
    *,
    epochs: int = 2,
) -> None:
    """Check that the loaders of all ranks yield the same number of batches in each epoch.

    In distributed training every rank waits in each step for all others. If one has a batch less, the others wait for
    ever: for gradients that it never sends. The check iterates the loader of each rank in this process, one after the
    other, and compares. Put samples that cannot be loaded into the part of one rank to see what happens there.

    Args:
        make: Makes the loader of one rank. It is called with ``rank`` and ``world_size``, and with ``batch_size`` if it
            takes that, by keyword. Its result is iterated once for each epoch, and is entered before if it has
            ``auto_stop``, as a `Pipeline` has.
        world: The numbers of ranks to try.
        batch: The batch sizes to try. Unused if `make` takes no ``batch_size``.
        epochs: How many epochs to compare.

    Raises:
        AssertionError: If the ranks differ. The message says which ones, and in which epoch.
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.source import EpochSampler
        >>> from spdl.testing import assert_equal_steps
        >>> def make(rank, world_size, batch_size):
        ...     return EpochSampler(101, batch_size=batch_size, rank=rank, world_size=world_size).batch_sampler
        >>> assert_equal_steps(make)
    """
    if not callable(make):
        refuse(TypeError, "make", "a function that makes the loader of a rank", make)
    takes = _parameters(make)
    positive("epochs", epochs)
    worlds = check_numbers("world", world)
    batches = check_numbers("batch", batch) if "batch_size" in takes else [1]
    for world_size in worlds:
        for batch_size in batches:
            counts = []
            for rank in range(world_size):
                given = {"rank": rank, "world_size": world_size, "batch_size": batch_size}
                counts.append(_count(make(**{name: given[name] for name in takes}), epochs))
            _compare(counts, f"{world_size} ranks" + (f" and batch size {batch_size}" if "batch_size" in takes else ""))


def _parameters(make: Callable[..., Iterable[Any]]) -> list[str]:
    parameters = signature(make).parameters
    takes = [name for name in _ACCEPTED if name in parameters]
    unknown = [
        name
        for name, each in parameters.items()
        if name not in _ACCEPTED
        and each.default is Parameter.empty
        and each.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    ]
    if unknown or takes[:2] != ["rank", "world_size"]:
        refuse(
            TypeError, "make", "a function with the parameters `rank`, `world_size` and, if wanted, `batch_size`", make
        )
    return takes


def _count(loader: Iterable[Any], epochs: int) -> list[int]:
    running: AbstractContextManager[Any] = nullcontext()
    if hasattr(loader, "auto_stop"):
        running = loader.auto_stop()
    with running:
        return [sum(1 for _ in loader) for _ in range(epochs)]


def _compare(counts: list[list[int]], where: str) -> None:
    for epoch, of_ranks in enumerate(zip(*counts, strict=True)):
        if len(set(of_ranks)) > 1:
            fewest, most = of_ranks.index(min(of_ranks)), of_ranks.index(max(of_ranks))
            raise AssertionError(
                f"With {where}, in epoch {epoch}, rank {fewest} yields {min(of_ranks)} batches and rank {most} yields "
                f"{max(of_ranks)}: the ranks with more would wait for the others forever."
            )
