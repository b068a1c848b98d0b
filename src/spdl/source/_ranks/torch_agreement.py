"""Agrees over torch.distributed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agreement import Agree

__all__ = ["agree_over_torch"]


class _Reduced:
    """The result of an all-reduce that is under way."""

    def __init__(self, work: Any, number: Any) -> None:
        self._work = work
        self._number = number

    def result(self) -> int:
        self._work.wait()
        return int(self._number)


def agree_over_torch(group: Any = None) -> Agree:
    """Return what `EqualSteps` and `shard` take as ``agree``, over ``torch.distributed``.

    Call it on all ranks, at the same point of the program, after ``init_process_group``.

    Args:
        group: A process group of these ranks that works on the CPU, such as gloo, and that nothing else uses
            meanwhile. None makes one of all ranks.

    Returns:
        A function that takes an int and starts to find the least of all ranks' ints. It does not wait.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If ``torch.distributed`` is not initialised.

    Example:
        >>> from spdl.source import agree_over_torch
        >>> agree_over_torch()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        RuntimeError: torch.distributed is not initialised: ...
    """
    try:
        torch = import_module("torch")
        distributed = import_module("torch.distributed")
    except ModuleNotFoundError as error:
        raise ImportError("agree_over_torch needs PyTorch: pip install 'spdl-turbo[torch]'") from error
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError(
            "torch.distributed is not initialised: call init_process_group() on all ranks before agree_over_torch()."
        )
    if group is None:
        # A training step's collectives are on another group, so the two never wait for each other.
        group = distributed.new_group(backend="gloo")

    def agree(number: int) -> _Reduced:
        tensor = torch.tensor(number, dtype=torch.int64)
        work = distributed.all_reduce(tensor, op=distributed.ReduceOp.MIN, group=group, async_op=True)
        return _Reduced(work, tensor)

    return agree
