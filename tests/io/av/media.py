"""The tests' clips, short and small: made by the system's ffmpeg command when a test asks for one, and kept.

They lie in the user's cache, in a folder for this version of the command and of the modules that say how they are made.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.io.av import audio_clips, encoded, odd_clips, sources, video_clips
from tests.io.av.audio_clips import AUDIO_CLIPS
from tests.io.av.ffmpeg import version
from tests.io.av.odd_clips import ODD_CLIPS
from tests.io.av.video_clips import VIDEO_CLIPS

from spdl._cache_folder import cache_folder, only_one

CLIPS = VIDEO_CLIPS | AUDIO_CLIPS | ODD_CLIPS

_MODULES = (audio_clips, encoded, odd_clips, sources, video_clips)


def clip(name: str) -> Path:
    """Return the path of a clip. Make it first if it is not there. Skip the test if that is not possible here."""
    path = _folder() / name
    if not path.exists():
        with only_one(path):
            if not path.exists():
                making = path.with_name(f"making.{name}")
                CLIPS[name].make(making)
                making.rename(path)
    return path


def _folder() -> Path:
    digest = hashlib.sha256(version().encode())
    for module in _MODULES:
        digest.update(Path(str(module.__file__)).read_bytes())
    return cache_folder() / "test-clips" / digest.hexdigest()[:12]
