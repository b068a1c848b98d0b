"""A bug to plant."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mutant"]


class Mutant(NamedTuple):
    """A bug to plant.

    Attributes:
        name: The rule that it breaks, as what goes wrong.
        function: The function of the engine that gets it, as ``Class.method``, wherever it stands.
        find: The text to replace. It must occur in the function exactly once.
        replace: The new text.
        tests: The tests that should fail, by name (``test_it``, ``TestIt::test_it`` or ``test_file.py``). If they pass,
            all are run.
        budget: Whether it shows only where the pipeline has a budget of bytes.
    """

    name: str
    function: str
    find: str
    replace: str
    tests: tuple[str, ...] = ()
    budget: bool = False
