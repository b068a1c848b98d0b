"""Sounds of six seconds in many codecs and containers, to be read in pieces."""

from __future__ import annotations

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.io.av.encoded import Clip, audio
from tests.io.av.sources import Sound

_CD = Sound(44100, 2, 6.0)
_STUDIO = Sound(48000, 2, 6.0)
_MONO = Sound(16000, 1, 6.0)
# Without noise substitution, which depends on all that was decoded before.
_AAC = ("-aac_pns", 0, "-b:a", "128k")
_MP3 = ("-b:a", "128k")

# The names say what is in the file.
LONG_SOUNDS: dict[str, Clip] = {
    "u8.wav": audio("pcm_u8", dtype="u1", sound=_CD, lossless=True),
    "s16.wav": audio("pcm_s16le", sound=_CD, lossless=True),
    "s24.mov": audio("pcm_s24be", dtype="i4", sound=_CD, lossless=True),
    "f64.wav": audio("pcm_f64le", dtype="f8", sound=_CD, lossless=True),
    "s16.mkv": audio("pcm_s16le", sound=_CD, lossless=True),
    "flac.flac": audio("flac", sound=_CD, lossless=True),
    "flac.mkv": audio("flac", sound=_CD, lossless=True),
    "flac.ogg": audio("flac", sound=_CD, lossless=True),
    "alac.m4a": audio("alac", sound=_CD, lossless=True),
    "wavpack.wv": audio("wavpack", sound=_CD, lossless=True),
    "tta.tta": audio("tta", sound=_CD, lossless=True),
    "aac.m4a": audio("aac", *_AAC, sound=_CD),
    "aac_fragments.mp4": audio(
        "aac", *_AAC, "-movflags", "frag_keyframe+empty_moov", "-frag_duration", 500_000, sound=_CD
    ),
    "aac.mkv": audio("aac", *_AAC, sound=_CD),
    "aac.ts": audio("aac", *_AAC, sound=_CD),
    "aac.aac": audio("aac", *_AAC, sound=_CD),
    "mp3.mp3": audio("libmp3lame", *_MP3, sound=_CD),
    "mp3_bare.mp3": audio("libmp3lame", *_MP3, "-write_xing", 0, "-id3v2_version", 0, sound=_CD),
    "mp3_variable.mp3": audio("libmp3lame", "-q:a", 4, sound=_CD),
    "mp3_variable_bare.mp3": audio("libmp3lame", "-q:a", 4, "-write_xing", 0, sound=_CD),
    # Frames of 36 bytes take bits from up to fourteen frames back.
    "mp3_low.mp3": audio("libmp3lame", "-b:a", "8k", sound=_MONO),
    "mp3.mkv": audio("libmp3lame", *_MP3, sound=_CD),
    "mp3.mp4": audio("libmp3lame", *_MP3, sound=_CD),
    "mp3.avi": audio("libmp3lame", *_MP3, sound=_CD),
    "opus.opus": audio("libopus", "-b:a", "64k", sound=_STUDIO),
    "opus_short.opus": audio("libopus", "-frame_duration", 2.5, sound=_STUDIO),
    "opus.webm": audio("libopus", "-b:a", "64k", sound=_STUDIO),
    "opus_short.mkv": audio("libopus", "-frame_duration", 2.5, sound=_STUDIO),
    "opus_long.mkv": audio("libopus", "-frame_duration", 60, sound=_STUDIO),
    "opus.mp4": audio("libopus", "-b:a", "64k", sound=_STUDIO),
    "vorbis.ogg": audio("libvorbis", "-q:a", 4, sound=_CD),
    "vorbis.webm": audio("libvorbis", "-q:a", 4, sound=_CD),
    "ac3.ac3": audio("ac3", sound=_STUDIO),
    "ac3.mkv": audio("ac3", sound=_STUDIO),
    "mp2.ts": audio("mp2", sound=_STUDIO),
}


@functools.cache
def long_sound(name: str) -> bytes:
    """Return a file. Skip the test if the ffmpeg command cannot make it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        LONG_SOUNDS[name].make(path)
        return path.read_bytes()


def tolerance(name: str) -> float:
    """Return by how much samples may differ that are decoded from a place in the middle on."""
    if "opus" in name:
        return 1e-5  # It predicts from all that came before, which fades.
    if "mp2" in name:
        return 2**-14  # FFmpeg's decoder rounds to 16 bits, and carries what it rounded off along.
    return 0
