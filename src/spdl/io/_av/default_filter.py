"""The filters that apply unless the caller gives others."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.filter_desc import DEFAULT_FILTER_DESC

AUDIO_FILTER_DESC = "aformat=sample_fmts=fltp"
"""The default filters of sound: a conversion to 32-bit floats, each channel by itself."""


class DefaultFilter(Enum):
    """Stands for the default filters of the medium."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Literal[DefaultFilter.DEFAULT] = DefaultFilter.DEFAULT

FilterDesc: TypeAlias = str | Literal[DefaultFilter.DEFAULT] | None


def filters_of(filter_desc: FilterDesc, *, audio: bool) -> str:
    """Return the filters as native code takes them: "" for none.

    Raises:
        TypeError: If they are not text.
        ValueError: If the text holds a null character.
    """
    if filter_desc is DEFAULT:
        return AUDIO_FILTER_DESC if audio else DEFAULT_FILTER_DESC
    if filter_desc is None:
        return ""
    check_ffmpeg_text("filter_desc", filter_desc)
    return filter_desc
