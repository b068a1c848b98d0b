"""Videos and sounds that are made for the examples, so that these need nothing from elsewhere."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import Muxer, create_reference_video_frame, video_encode_config

if TYPE_CHECKING:
    from pathlib import Path

MOTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
"""The directions in which a square moves, in pixels right and down. A single picture does not tell which."""

WORDS = {"rise": (300, 900), "fall": (900, 300), "high": (900, 900), "low": (300, 300)}
"""The pitches with which a sound begins and ends, in hertz."""

SIDE, FPS = 64, 25
RATE = 16000


def make_videos(folder: Path, per_class: int) -> None:
    """Write MPEG-4 files of two to four seconds in which a square moves, a sub-folder for each direction."""
    for number, (name, step) in enumerate(MOTIONS.items()):
        (folder / name).mkdir(parents=True)
        for index in range(per_class):
            rng = np.random.default_rng([number, index])
            frames = _move(rng, step, int(rng.integers(2 * FPS, 4 * FPS)))
            _write_video(folder / name / f"{index:03d}.mp4", frames)


def make_sounds(folder: Path, per_class: int) -> None:
    """Write wav files of one to two seconds with a tone in noise, a sub-folder for each way its pitch moves."""
    for number, (name, pitches) in enumerate(WORDS.items()):
        (folder / name).mkdir(parents=True)
        for index in range(per_class):
            rng = np.random.default_rng([number, index])
            samples = _sing(rng, pitches, float(rng.uniform(1, 2)))
            with wave.open(str(folder / name / f"{index:03d}.wav"), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", ""))
                file.writeframes(samples.tobytes())


def _move(rng: np.random.Generator, step: tuple[int, int], count: int) -> Any:
    background = rng.integers(0, 120, (SIDE, SIDE, 3), np.uint8)
    size = int(rng.integers(10, 20))
    speed = rng.uniform(1, 2)
    x, y = rng.integers(0, SIDE, 2)
    frames = np.repeat(background[None], count, axis=0)
    span = np.arange(size)
    for time, frame in enumerate(frames):
        columns = (x + int(step[0] * speed * time) + span) % SIDE
        rows = (y + int(step[1] * speed * time) + span) % SIDE
        frame[np.ix_(rows, columns)] = 230
    return frames


def _write_video(path: Path, frames: Any) -> None:
    muxer = Muxer(str(path))
    config = video_encode_config(height=SIDE, width=SIDE, frame_rate=FPS)
    encoder = muxer.add_encode_stream(config, encoder="mpeg4")
    with muxer.open():
        packets = encoder.encode(create_reference_video_frame(frames, "rgb24", FPS, 0))
        if packets is not None:
            muxer.write(0, packets)


def _sing(rng: np.random.Generator, pitches: tuple[int, int], seconds: float) -> Any:
    count = int(seconds * RATE)
    first, last = (pitch * rng.uniform(0.9, 1.1) for pitch in pitches)
    phase = 2 * np.pi * np.cumsum(np.linspace(first, last, count)) / RATE
    envelope = np.hanning(count)
    samples = 0.4 * envelope * np.sin(phase) + rng.normal(0, 0.05, count)
    return (np.clip(samples, -1, 1) * 32767).astype(np.int16)
