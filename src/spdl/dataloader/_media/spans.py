"""Where the main stream of a file begins and ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.io import AudioReader, VideoReader

if TYPE_CHECKING:
    from spdl.io import DemuxConfig

__all__ = ["Span", "Spans"]

# So many are remembered, some 20 MB.
_MOST = 100_000


class Span(NamedTuple):
    """The beginning of the first frame or sample of a stream, and the end of the last one, on the file's clock."""

    begin: float
    end: float


class Spans:
    """Finds where streams are. The header does not tell it: it may be of another stream, or a guess.

    That takes a look at all packets of a file, without decoding them, so what was found for a path is remembered until
    the file changes. Several threads call it at once.

    Args:
        audio: Whether the sound is looked for, and not the video.
        demux_config: How FFmpeg reads.
    """

    def __init__(self, *, audio: bool, demux_config: DemuxConfig | None = None) -> None:
        self._audio = audio
        self._demux_config = demux_config
        self._known: dict[tuple[str, int, int], Span | None] = {}

    def find(self, media: Any) -> Span | None:
        """Return where the stream of a file is; None if it cannot be read: whoever loads it says what is wrong."""
        if hasattr(media, "read"):
            # It can be read once only.
            return None
        key = _identify(media)
        if key is None:
            return self._look(media)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[key] = self._look(media)
            return found

    def _look(self, media: Any) -> Span | None:
        try:
            if self._audio:
                sound = AudioReader(media, demux_config=self._demux_config)
                begin = sound.start_time
                return Span(begin, begin + sound.duration)
            video = VideoReader(media, demux_config=self._demux_config)
            begin = float(video.timestamps[0])
            return Span(begin, begin + video.duration)
        except (OSError, RuntimeError, IndexError):
            return None


def _identify(media: Any) -> tuple[str, int, int] | None:
    if not isinstance(media, str | os.PathLike):
        return None
    path = os.fsdecode(media)
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return path, found.st_size, found.st_mtime_ns
