"""The `spdl` command."""

from spdl.cli._main import main

__all__ = ["main"]
