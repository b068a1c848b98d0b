"""The bugs of ``tests/mutation``, as changes of the engine's source that a simulation makes."""

from __future__ import annotations

from tests.simulation.instrument import Patch

__all__ = ["patch_of"]


def patch_of(name: str | None) -> Patch | None:
    """Return what plants the bug of this name; None if there is no name."""
    if name is None:
        return None
    from tests.mutation.mutants import MUTANTS  # noqa: PLC0415 - only those who plant one need them.
    from tests.mutation.planting import plant  # noqa: PLC0415 - as above.
    from tests.mutation.runner import ENGINE, ROOT  # noqa: PLC0415 - as above.

    planted = plant(next(mutant for mutant in MUTANTS if mutant.name == name), ROOT / ENGINE)
    return Patch(planted.path.relative_to(ROOT / ENGINE).as_posix(), planted.source)
