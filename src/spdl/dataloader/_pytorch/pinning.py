"""Copies batches into memory that a device reads by itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pinning"]


class Pinning:
    """A function that pins the tensors of a batch, in any thread, for the device that is current where this is made.

    Args:
        device: The kind of device, as torch names it.
    """

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._index = _current_index()
        self._here = _Here()

    @classmethod
    def of(cls, iterator: Any) -> Callable[[Any], Any]:
        """Return what pins the batches of one of torch's iterators, which knows whether that is wanted and possible."""
        return cls(iterator._pin_memory_device) if iterator._pin_memory else _as_it_is  # noqa: SLF001 - torch's names.

    def __call__(self, batch: Any) -> Any:
        """Return the batch with its tensors pinned."""
        self._here.choose(self._index)
        return pin_memory(batch, self._device)


class _Here(threading.local):
    """Which device this thread was told to use. A thread begins with the first one, and would take memory of it."""

    told: int | None = None

    def choose(self, index: int) -> None:
        if self.told != index:
            _choose_index(index)
            self.told = index


def _current_index() -> int:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return int(torch.cuda.current_device())
    # The name changed with torch 2.9.
    get = getattr(accelerator, "current_device_index", None) or accelerator.current_device_idx
    return int(get())


def _choose_index(index: int) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        torch.cuda.set_device(index)
        return
    choose = getattr(accelerator, "set_device_index", None) or accelerator.set_device_idx
    choose(index)


def _as_it_is(batch: Any) -> Any:
    return batch
