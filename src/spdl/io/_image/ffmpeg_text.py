"""Text that FFmpeg takes: names, options and descriptions of filters."""

from __future__ import annotations

from collections.abc import Mapping

from spdl._check import check_instance, check_str, refuse


def check_ffmpeg_text(argument: str, value: object) -> None:
    """Check a text before FFmpeg gets it.

    Raises:
        TypeError: If it is no str.
        ValueError: If it holds a null character, where FFmpeg would stop reading.
    """
    if "\0" in check_str(argument, value):
        refuse(ValueError, argument, "a str without null characters", value, "FFmpeg would stop reading at the first.")


def copy_ffmpeg_options(argument: str, options: object) -> dict[str, str] | None:
    """Return a copy of options, which map names to values, or None.

    Raises:
        TypeError: If they are no mapping, or a name or a value is no str.
        ValueError: If a name or a value holds a null character.
    """
    if options is None:
        return None
    check_instance(argument, options, Mapping, "a mapping of options' names to their values, both str, or None")
    assert isinstance(options, Mapping)
    copied = dict(options)
    for name, value in copied.items():
        check_ffmpeg_text(f"{argument}.keys()", name)
        check_ffmpeg_text(f"{argument}[{name!r}]", value)
    return copied
