"""What the media library says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import show

import spdl.io.utils

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    versions = spdl.io.utils.get_ffmpeg_versions()
    show("libraries", sorted(name for name in versions if name.startswith("libav")) != [])
    show("versions are of three numbers", all(len(it) == 3 for it in versions.values()))
    filters = spdl.io.utils.get_ffmpeg_filters()
    show("filters", [name in filters for name in ("scale", "crop", "aresample", "nonsense")])
    show("log level", spdl.io.utils.get_ffmpeg_log_level())
    spdl.io.utils.set_ffmpeg_log_level(24)
    show("log level that was set", spdl.io.utils.get_ffmpeg_log_level())
    spdl.io.utils.set_ffmpeg_log_level(8)
    show(
        "built with", [type(it()).__name__ for it in (spdl.io.utils.built_with_cuda, spdl.io.utils.built_with_nvcodec)]
    )
