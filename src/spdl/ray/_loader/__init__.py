"""What runs in the driver: it starts the actors, grants positions to them and collects what they return."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
