"""The errors and records of inputs that cannot be loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl._check import escaped


class FormatError(ValueError, RuntimeError):
    """Raised when an array or archive is damaged, contradicts itself, or holds something that is refused.

    The message names the file or member, the position, what was found there, and what is accepted. The error is a
    `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises in some of these cases.

    Attributes:
        path: The file or object: its path, as given or in its store, or its URL. None if the content came from memory
            or a stream.

    Example:
        >>> try:
        ...     load_npy(b"no array")
        ... except FormatError as error:
        ...     print(type(error).__mro__[1].__name__, error.path)
        ValueError None
    """

    def __init__(self, *args: object, path: str | None = None) -> None:
        super().__init__(*args)
        self.path = path

    def __str__(self) -> str:
        # Names of files and members are in it, and beginnings of their contents.
        return escaped(super().__str__())


def name_path(error: FormatError, path: str) -> None:
    """Note which file an error is about, unless that is known."""
    if error.path is None:
        error.path = path


class LoadError(RuntimeError):
    """Raised by `load_image_batch` and its relatives for masks, video and audio if inputs fail that may not.

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
    """The input that was given."""
    reason: str
    """The error message."""
