"""The objects that users hold: the builder, the pipeline and its iterators."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
