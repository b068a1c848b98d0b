"""Measure reading audio, beside other libraries on the same sounds.

Ten seconds of a film's sound as FLAC, MP3 and WAV, in memory, become one channel of floats at 16 kHz, on one thread.
Each contender has its own process and environment, all take turns, and the medians of the rounds count. soundfile does
not resample: it stands for what decoding alone takes. A contender that cannot be installed or fails is listed with the
reason.

Run it as `python benchmarks/audio.py [--rows ROW...] [--rounds N] [--json FILE]`. Other rows that are already in the
file stay there, each with the commit at which it was measured. `--prepare` makes the environments and sounds, which
takes minutes, and measures nothing.
"""

from __future__ import annotations

from _media_rows import audio_rows
from _media_table import run_media

if __name__ == "__main__":
    raise SystemExit(run_media("Measure reading audio.", audio_rows()))
