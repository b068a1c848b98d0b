"""The loader of tables: columns of Parquet files as tensors."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
