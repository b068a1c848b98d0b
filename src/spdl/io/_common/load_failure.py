"""The record of an image that could not be loaded."""

from typing import Any, NamedTuple


class LoadFailure(NamedTuple):
    """An input that failed: `load_image_batch` left it out, put zeros in its place, or kept the part that it decoded.

    Example:
        >>> batch = load_image_batch([photo, b"no image"], width=64, height=64, on_error="skip")
        >>> [(failure.index, failure.source) for failure in batch.failures]
        [(1, b'no image')]
    """

    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """Its position among the inputs, from 0."""
    source: Any
    """The input as it was given."""
    reason: str
    """The error message."""
