"""The error for arrays and archives that cannot be read."""

from spdl._shown import escaped


class FormatError(ValueError, RuntimeError):
    """Raised when an array or archive is damaged, contradicts itself, or holds something that is refused.

    The message names the file or member, the position, what was found there, and what is accepted. The error is a
    `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises in some of these cases.

    Attributes:
        path: The file or object: its path, as it was given or as it is in its store, or its URL. None if the content
            came from memory or a stream.

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
