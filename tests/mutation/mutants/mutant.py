"""A bug to plant."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mutant"]


class Mutant(NamedTuple):
    """A bug to plant.

    Attributes:
        name: The rule that it breaks, as what goes wrong.
        file: The file in ``src/spdl/pipeline``.
        find: The text to replace. It must occur in the file exactly once.
        replace: The new text.
        tests: The tests that should fail, as ``module.py::name`` in ``tests/pipeline``. If they pass, all are run.
    """

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...] = ()
