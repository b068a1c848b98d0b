"""Public names of spdl 0.8.0 that this package does not have, and what to say to those who look for one."""

from __future__ import annotations

import sys

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["NOT_HERE", "PAGE", "missing"]

PAGE = "docs/departures.md, 'Not here yet'"

NOT_HERE = {
    "spdl": {"autoresearch": "it is a product of its own"},
}
"""The reason by module and name. A module asks only for a name that it lacks, so one that arrives needs no change here.
"""


def missing(module: str, name: str) -> AttributeError | ImportError:
    """Return what a module's ``__getattr__`` raises for a name that it does not have.

    An `ImportError` where the name is imported: Python puts words of its own in place of an `AttributeError` there.
    Everywhere else an `AttributeError`, so that `hasattr` answers.
    """
    reason = NOT_HERE.get(module, {}).get(name)
    if reason is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    text = f"{module}.{name} is in spdl 0.8.0: {reason}. See {PAGE}"
    return ImportError(text, name=module) if _is_import() else AttributeError(text, name=name)


def _is_import() -> bool:
    """Return whether the module's ``__getattr__`` was called by ``from module import name``."""
    from dis import opmap  # noqa: PLC0415 - only for a name that is missing.

    frame = sys._getframe(3)  # noqa: SLF001 - of this function, `missing` and ``__getattr__``: the one that asks.
    code, position = frame.f_code.co_code, frame.f_lasti
    return 0 <= position < len(code) and code[position] == opmap["IMPORT_FROM"]
