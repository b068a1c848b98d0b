"""What a thread has set for itself, and worker threads of its inherit: as worker processes do that are forked."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl._type_vars import T

__all__ = ["InheritedContext"]

_DEVICES = ("cpu", "cuda")


class InheritedContext:
    """The context variables and modes of PyTorch of the thread that makes it: of a loop under ``torch.no_grad``, say.

    Among the context variables are those of ``decimal`` and, from NumPy 2 on, of ``numpy.errstate``.
    """

    def __init__(self) -> None:
        self._variables = copy_context()
        self._modes = _modes()

    def copy(self) -> InheritedContext:
        """Return one more, which another thread may be in at the same time."""
        other = object.__new__(InheritedContext)
        other._variables = self._variables.copy()
        other._modes = self._modes
        return other

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in it. What the function sets stays for the next call, but not in the thread."""
        if self._modes:
            return self._variables.run(self._run_in_modes, function, *args)
        return self._variables.run(function, *args)

    def _run_in_modes(self, function: Callable[..., T], *args: Any) -> T:
        with ExitStack() as stack:
            for mode in self._modes:
                stack.enter_context(mode())
            return function(*args)


def _modes() -> list[Callable[[], AbstractContextManager[Any]]]:
    """Return what puts another thread into the modes that this one is in; nothing for those it begins in."""
    modes: list[Callable[[], AbstractContextManager[Any]]] = []
    if torch.is_inference_mode_enabled():
        modes.append(torch.inference_mode)
    elif not torch.is_grad_enabled():
        modes.append(torch.no_grad)
    # Since PyTorch 2.4.
    if hasattr(torch, "get_autocast_dtype"):
        modes += [_autocast(device) for device in _DEVICES if torch.is_autocast_enabled(device)]
    return modes


def _autocast(device: str) -> Callable[[], AbstractContextManager[Any]]:
    return partial(
        torch.autocast, device, torch.get_autocast_dtype(device), cache_enabled=torch.is_autocast_cache_enabled()
    )
