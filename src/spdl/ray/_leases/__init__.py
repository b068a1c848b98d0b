"""Who works on which positions of a source: rules alone, without Ray."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
