"""The native module, loaded at the first use of anything in it."""

import importlib
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from spdl.io import _native as native
else:

    class _LazyModule:
        """Stands for the native module and becomes it attribute by attribute."""

        def __getattr__(self, name: str) -> Any:
            try:
                module = importlib.import_module("spdl.io._native")
            except ImportError as error:
                msg = (
                    f"spdl.io's native part cannot be loaded ({error}). It is built when the package is installed and "
                    "needs the FFmpeg and libjpeg-turbo libraries it was built with. Reinstall it with "
                    "`pip install --force-reinstall --no-deps spdl-turbo`, or from a checkout with `pip install .`"
                )
                raise ImportError(msg) from error
            value = getattr(module, name)
            setattr(self, name, value)
            return value

    native = _LazyModule()

__all__ = ["native"]
