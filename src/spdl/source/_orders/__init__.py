"""Orders of an epoch, and the shares of ranks in them."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
