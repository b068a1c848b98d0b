"""The `spdl` command."""

from spdl import _guard  # noqa: F401 - this package stays when the reference overwrites the one around it.
from spdl.cli._main import main

__all__ = ["main"]
