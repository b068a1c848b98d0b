"""The libjpeg-turbo in use, and what decodes the Huffman codes of JPEGs in it."""

from typing import Literal, cast

from spdl.io._common.native import native


def get_libjpeg_turbo_version() -> tuple[int, int, int]:
    """Return the version of libjpeg-turbo that this build was made with.

    Wheels and builds from source bring their own, of the version that our entropy decoder is written for. A build that
    could not download it uses the system's.

    Returns:
        The major, minor and micro version.

    Example:
        >>> get_libjpeg_turbo_version() >= (2, 1, 0)
        True
    """
    return native.libjpeg_turbo_version()


def get_entropy_decoder() -> Literal["own", "libjpeg"]:
    """Return the name of the decoder of Huffman codes in baseline JPEGs.

    Returns:
        ``"own"`` for our own decoder, which works inside the libjpeg-turbo that it is built with and loads photos a
        third faster; ``"libjpeg"`` for that of libjpeg-turbo, in a build on the system's.

    Example:
        >>> get_entropy_decoder() in ("own", "libjpeg")
        True
    """
    return cast('Literal["own", "libjpeg"]', native.entropy_decoder_names()[0])
