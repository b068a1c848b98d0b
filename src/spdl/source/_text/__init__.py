"""Text for language models: files of tokens, and rows of them."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
