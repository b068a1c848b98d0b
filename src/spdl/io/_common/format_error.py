"""The error for bytes that are not what they are taken for."""


class FormatError(ValueError, RuntimeError):
    """Raised by whatever reads arrays and archives, where the bytes are damaged, lie, or hold what is refused.

    The message names the file or the member, the place, what was found there, and what is accepted. It is a
    `ValueError`, and a `RuntimeError` too, since that is what spdl 0.8.0 raises for some of these.

    Example:
        >>> try:
        ...     load_npy(b"no array")
        ... except FormatError as error:
        ...     print(type(error).__mro__[1].__name__)
        ValueError
    """
