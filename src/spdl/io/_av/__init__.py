"""Audio and video: demuxing, decoding and filtering of streams, and what is built on them."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
