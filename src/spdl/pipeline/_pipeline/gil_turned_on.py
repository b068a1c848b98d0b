"""The warning that a Python built to run without a GIL runs with one, because of a module that was imported."""

from __future__ import annotations

import re
import sys
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

from spdl._locate import warn_caller

__all__ = ["warn_of_gil"]

# What Python says when it turns the GIL on.
_SAID = re.compile(r"\(GIL\) has been enabled to load module '([^']+)'")


def warn_of_gil() -> None:
    """Warn the caller if an import has turned the GIL on. Python says it once, when it happens, among other output.

    Nothing is said where the user has asked for the GIL (``PYTHON_GIL=1``, ``-X gil=1``).
    """
    if "t" not in getattr(sys, "abiflags", "") or not sys._is_gil_enabled() or sys.flags.gil:  # type: ignore[attr-defined, unused-ignore]  # noqa: SLF001 - new in Python 3.13.
        return
    names = _modules_that_need_it() or _modules_that_were_named()
    cause = f"importing {', '.join(names)} has turned it on" if names else "an import has turned it on"
    warn_caller(
        f"This Python can run without a GIL, but {cause} for the whole process: threads run ops that are written in "
        "Python one at a time. Use a version of the module that declares support for free threading, or leave it to "
        "another process. At your own risk, `PYTHON_GIL=0` keeps the GIL off whatever is imported."
    )


def _modules_that_need_it() -> list[str]:
    """Return the names of the loaded extension modules that do not declare that they run without a GIL."""
    # Python notes what a module has declared in the last field of the module object. Nothing else tells it afterwards,
    # and other versions may lay the object out in another way.
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 13):
        return []
    import ctypes  # noqa: PLC0415 - rarely needed.

    pointer = ctypes.sizeof(ctypes.c_void_p)
    place = ModuleType.__basicsize__ - pointer
    if place != object.__basicsize__ + 5 * pointer:
        return []
    modules = [module for module in list(sys.modules.values()) if type(module) is ModuleType]
    return sorted(
        module.__name__
        for module in modules
        if isinstance(getattr(module.__spec__, "loader", None), ExtensionFileLoader)
        # `Py_MOD_GIL_USED`, which is also what is there if nothing was declared.
        and not ctypes.c_void_p.from_address(id(module) + place).value
    )


def _modules_that_were_named() -> list[str]:
    """Return the names of the modules of which Python has said that they turned the GIL on.

    It says so in a warning, of the first such module only. A module remembers in ``__warningregistry__`` what was
    warned of in it, so that nothing is said twice; where the user has Python ignore warnings, nothing is remembered.
    """
    registries = [getattr(module, "__dict__", {}).get("__warningregistry__") for module in list(sys.modules.values())]
    keys = [key for registry in registries if isinstance(registry, dict) for key in list(registry)]
    # A key begins with the text. The registry has other entries, too.
    texts = [str(key[0]) for key in keys if isinstance(key, tuple) and key]
    return sorted({found[1] for text in texts if (found := _SAID.search(text))})
