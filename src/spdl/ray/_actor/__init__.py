"""What runs in an actor: a whole pipeline, and what feeds and reads it."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
