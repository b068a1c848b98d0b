"""The `spdl` command."""
