"""The error of a batch whose inputs could not be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.io._common.load_failure import LoadFailure


class LoadError(RuntimeError):
    """Raised by `load_image_batch`, `load_video_batch` and `load_audio_batch` if inputs fail that may not.

    Attributes:
        failures: The inputs that failed: for each the index, the input itself and the reason.

    Example:
        >>> try:
        ...     load_image_batch([photo, b"no image"], width=32, height=32)
        ... except LoadError as error:
        ...     print([failure.index for failure in error.failures])
        [1]
    """

    def __init__(self, message: str, failures: tuple[LoadFailure, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures
