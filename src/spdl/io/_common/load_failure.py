"""The record of an image that could not be loaded."""

from typing import Any, NamedTuple


class LoadFailure(NamedTuple):
    """An input that `load_image_batch` left out, replaced by zeros or, with ``on_error="partial"``, kept in part.

    Example:
        >>> batch = load_image_batch([photo, b"no image"], width=64, height=64, on_error="skip")
        >>> [(failure.index, failure.source) for failure in batch.failures]
        [(1, b'no image')]
    """

    index: int  # type: ignore[assignment]  # Shadows tuple.index, which nobody needs on a record.
    """Its position among the inputs, from 0."""
    source: Any
    """The input as it was given."""
    reason: str
    """What went wrong."""
