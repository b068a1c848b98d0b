"""The error for arrays and archives that cannot be read."""


class FormatError(ValueError, RuntimeError):
    """Raised when an array or archive is damaged, contradicts itself, or holds something that is refused.

    The message names the file or member, the position, what was found there, and what is accepted. The error is a
    `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises in some of these cases.

    Example:
        >>> try:
        ...     load_npy(b"no array")
        ... except FormatError as error:
        ...     print(type(error).__mro__[1].__name__)
        ValueError
    """
