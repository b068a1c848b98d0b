"""Whole audio files, with the default filter and without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    for name in ("s16.wav", "mono.wav", "surround.wav", "cd.wav", "flac.flac", "alac.m4a", "wavpack.wv", "s16.mkv"):
        values = array(spdl.io.load_audio(str(clips / name)))
        show(name, form(values))
        show(f"{name} as integers", digest(np.round(values * 32768).astype("int16")))
    for name in (
        "u8.wav",
        "s16.wav",
        "s24.wav",
        "s32.wav",
        "f32.wav",
        "f64.wav",
        "mono.wav",
        "surround.wav",
        "s16.aiff",
    ):
        show(f"{name} without filter", digest(spdl.io.load_audio(clips / name, filter_desc=None)))
    for name in ("alac.m4a", "flac.flac"):
        values = array(spdl.io.load_audio(clips / name, filter_desc=None))
        show(f"{name} without filter", digest(values))
    for name in ("mp3.mp3", "vorbis.ogg", "opus.ogg", "aac.m4a"):
        values = array(spdl.io.load_audio(clips / name))
        show(f"{name} type and channels", f"{values.dtype} {values.shape[0]}")
        show(f"{name} is as loud as it was", 0.2 < float(np.sqrt((values**2).mean())) < 0.6)
    data = (clips / "s16.wav").read_bytes()
    whole = digest(spdl.io.load_audio(data))
    show("bytes", whole)
    sources = {
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "array": np.frombuffer(data, np.uint8),
        "path": clips / "s16.wav",
        "string": str(clips / "s16.wav"),
    }
    for kind, source in sources.items():
        show(f"{kind} gives the same", digest(spdl.io.load_audio(source)) == whole)
    show("of a clip with pictures", form(spdl.io.load_audio(clips / "both_lossless.mkv")))
    attempt("of a clip with pictures alone", lambda: spdl.io.load_audio(clips / "ffv1.mkv"))
    attempt("of a missing file", lambda: spdl.io.load_audio(clips / "missing.wav"))
    attempt("of noise", lambda: spdl.io.load_audio(bytes(range(256)) * 8))
    attempt("of nothing", lambda: spdl.io.load_audio(b""))
    attempt("of a number", lambda: spdl.io.load_audio(5))
