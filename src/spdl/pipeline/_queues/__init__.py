"""Users' own queues between stages, and users' own merges. Both run on the event loop."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
