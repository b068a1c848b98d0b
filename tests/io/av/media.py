"""The tests' clips, short and small: made by the system's ffmpeg command when a test asks for one, and kept.

They lie in the user's cache, in a folder for this version of the command and of the modules that say how they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.io.av import audio_clips, encoded, ffmpeg, odd_clips, sources, video_clips
from tests.io.av.audio_clips import AUDIO_CLIPS
from tests.io.av.ffmpeg import version
from tests.io.av.odd_clips import ODD_CLIPS
from tests.io.av.video_clips import VIDEO_CLIPS
from tests.io.kept import CACHE, digest, files_of, kept

if TYPE_CHECKING:
    from pathlib import Path

CLIPS = VIDEO_CLIPS | AUDIO_CLIPS | ODD_CLIPS

_MODULES = (audio_clips, encoded, ffmpeg, odd_clips, sources, video_clips)


def clip(name: str) -> Path:
    """Return the path of a clip. Make it first if it is not there. Skip the test if that is not possible here."""
    return kept(CACHE / "test-clips" / digest(version(), *files_of(*_MODULES)) / name, CLIPS[name].make)
