"""The tests' clips with audio alone: codecs, containers, types of samples, rates and channels."""

from __future__ import annotations

from tests.io.av.encoded import audio
from tests.io.av.sources import Sound

_MONO = Sound(8000, 1)
_SURROUND = Sound(48000, 6, 0.5)

AUDIO_CLIPS = {
    "u8.wav": audio("pcm_u8", dtype="u1", lossless=True),
    "s16.wav": audio("pcm_s16le", lossless=True),
    "s24.wav": audio("pcm_s24le", dtype="i4", lossless=True),
    "s32.wav": audio("pcm_s32le", dtype="i4", lossless=True),
    "f32.wav": audio("pcm_f32le", dtype="f4", lossless=True),
    "f64.wav": audio("pcm_f64le", dtype="f8", lossless=True),
    "mono.wav": audio("pcm_s16le", sound=_MONO, lossless=True),
    "surround.wav": audio("pcm_s16le", sound=_SURROUND, lossless=True),
    "cd.wav": audio("pcm_s16le", sound=Sound(44100), lossless=True),
    "alaw.wav": audio("pcm_alaw", sound=_MONO),
    "mulaw.wav": audio("pcm_mulaw", sound=_MONO),
    "adpcm.wav": audio("adpcm_ms", sound=Sound(22050)),
    "s16.aiff": audio("pcm_s16be", lossless=True),
    "s16.mkv": audio("pcm_s16le", lossless=True),
    "flac.flac": audio("flac", lossless=True),
    "flac24.flac": audio("flac", "-sample_fmt", "s32", dtype="i4", lossless=True),
    "flac.ogg": audio("flac", lossless=True),
    "flac_mono.flac": audio("flac", sound=_MONO, lossless=True),
    "alac.m4a": audio("alac", lossless=True),
    "wavpack.wv": audio("wavpack", lossless=True),
    "aac.m4a": audio("aac", "-b:a", "128k"),
    "aac.aac": audio("aac", "-b:a", "128k"),
    "aac_mono.m4a": audio("aac", "-b:a", "64k", sound=Sound(44100, 1)),
    "mp2.mp2": audio("mp2", "-b:a", "192k"),
    "mp3.mp3": audio("libmp3lame", "-b:a", "128k", sound=Sound(44100)),
    "mp3_variable.mp3": audio("libmp3lame", "-q:a", 4, sound=Sound(44100)),
    # Without the header that says how many samples to leave out at both ends.
    "mp3_bare.mp3": audio("libmp3lame", "-b:a", "128k", "-write_xing", 0, "-id3v2_version", 0, sound=Sound(44100)),
    "opus.ogg": audio("libopus", "-b:a", "96k"),
    "opus.webm": audio("libopus", "-b:a", "96k"),
    "vorbis.ogg": audio("libvorbis", "-q:a", 5),
    "ac3.ac3": audio("ac3", "-b:a", "192k"),
}
