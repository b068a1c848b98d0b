"""The native module, loaded at the first use of anything in it."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl import _guard

_NAME = "spdl.io._native"

if TYPE_CHECKING:
    from spdl.io import _native as native
else:

    class _LazyModule:
        """A stand-in that loads the native module at the first use and keeps each attribute once it was used."""

        def __getattr__(self, name: str) -> Any:
            try:
                module = importlib.import_module(_NAME)
            except ImportError as error:
                msg = (
                    f"spdl.io's native part cannot be loaded. Tried {_describe_attempt()}: {error}. The table of "
                    "docs/install.md, 'Which wheel is for which Python', says what it is made for. Install it again "
                    f"with this command:{_guard.compose_reinstall()}"
                )
                raise ImportError(msg, name=_NAME, path=error.path) from error
            value = getattr(module, name)
            setattr(self, name, value)
            return value

    native = _LazyModule()


def _describe_attempt() -> str:
    """Return the file that Python took for the native part, or else a list of the files found in its place."""
    import sys  # noqa: PLC0415 - only on the way to an error.
    from importlib.util import find_spec  # noqa: PLC0415

    try:
        spec = find_spec(_NAME)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None:
        return spec.origin
    folder = Path(__file__).parent.parent
    others = sorted(path.name for path in folder.glob("_native.*") if path.suffix != ".pyi")
    found = f"only {', '.join(others)}" if others else "nothing"
    return f"{folder}, which holds {found} for {sys.implementation.cache_tag}"


__all__ = ["native"]
