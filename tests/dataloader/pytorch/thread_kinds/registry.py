"""Registers the kinds: functions that make a loader's arguments in a folder for their files."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE = 24
"""The items of most kinds: six batches of four."""

_MODULES = """
    unsafe_readers unsafe_hidden unsafe_buffers unsafe_caches unsafe_inplace unsafe_records unsafe_aliases
    unsafe_shallow unsafe_globals unsafe_seeds unsafe_behind unsafe_special unsafe_objects unsafe_networks
    unsafe_random unsafe_libraries unsafe_passed_on unsafe_sources
    safe_containers safe_files safe_images safe_arrays safe_text safe_collate safe_libraries
"""


class Kind(NamedTuple):
    """A dataset with the arguments that go with it.

    `needs` names the modules without which it does not run. `is_exact` is False if PyTorch's workers race, too.
    """

    make: Callable[[Path], dict[str, Any]]
    needs: tuple[str, ...]
    is_exact: bool = True


UNSAFE: dict[str, Kind] = {}
SAFE: dict[str, Kind] = {}


def _register(kinds: dict[str, Kind], needs: tuple[str, ...], *, is_exact: bool = True) -> Callable[[Any], Any]:
    def add(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
        name = make.__name__
        assert name not in kinds, f"there are two kinds named {name}"
        kinds[name] = Kind(make, needs, is_exact)
        return make

    return add


def unsafe(*needs: str, is_exact: bool = True) -> Callable[[Any], Any]:
    """Register a kind whose items are others if threads load them: of an object that they share, or of the process."""
    return _register(UNSAFE, needs, is_exact=is_exact)


def safe(*needs: str) -> Callable[[Any], Any]:
    """Register a kind whose items are the same however they are loaded."""
    return _register(SAFE, needs)


def load_all() -> None:
    """Import the modules with the kinds."""
    for name in _MODULES.split():
        importlib.import_module(f"{__package__}.{name}")
