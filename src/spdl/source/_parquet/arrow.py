"""pyarrow, which is needed for Parquet alone."""

from __future__ import annotations

from typing import Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["import_arrow"]


def import_arrow(who: str) -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``.

    Raises:
        ImportError: If it is not installed; the message has the command.
    """
    try:
        import pyarrow  # noqa: ICN001, PLC0415 - an optional dependency.
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"{who} needs pyarrow. Install it with: pip install 'spdl-turbo[parquet]'") from error
    return pyarrow, pyarrow.parquet
