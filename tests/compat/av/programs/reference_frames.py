"""Frames that refer to an array's memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
from showing import attempt, digest, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _values(shape: tuple[int, ...], dtype: str) -> object:
    return (np.arange(np.prod(shape)).reshape(shape) * 7919 % 251).astype(dtype)


def main(clips: Path, made: Path) -> None:
    for pix_fmt, shape, dtype in (
        ("rgb24", (3, 8, 16, 3), "uint8"),
        ("bgr24", (3, 8, 16, 3), "uint8"),
        ("gray8", (3, 8, 16), "uint8"),
        ("gray16", (3, 8, 16), "uint16"),
        ("yuv444p", (3, 3, 8, 16), "uint8"),
    ):
        values = _values(shape, dtype)

        def check(values: object = values, pix_fmt: str = pix_fmt) -> str:
            frames = spdl.io.create_reference_video_frame(values, pix_fmt, (25, 1), 0)
            return f"{len(frames)} {frames.width} {frames.height} {frames.pix_fmt} {frames.get_pts()}"

        attempt(pix_fmt, check)
        attempt(
            f"{pix_fmt}, converted",
            lambda v=values, p=pix_fmt: digest(
                spdl.io.convert_frames(spdl.io.create_reference_video_frame(v, p, (25, 1), 0))
            ),
        )
        show(f"{pix_fmt}, source", digest(values))
    frames = spdl.io.create_reference_video_frame(_values((2, 8, 16, 3), "uint8"), "rgb24", (25, 1), 5)
    gc.collect()
    show("times", f"{frames.get_pts()} {frames.time_base}")
    show("the array lives on", digest(spdl.io.convert_frames(frames)))

    for sample_fmt, shape, dtype in (
        ("s16", (100, 2), "int16"),
        ("s16p", (2, 100), "int16"),
        ("fltp", (2, 100), "float32"),
        ("flt", (100, 2), "float32"),
        ("s32", (100, 2), "int32"),
        ("u8", (100, 2), "uint8"),
        ("dbl", (100, 2), "float64"),
    ):
        values = _values(shape, dtype)
        attempt(
            sample_fmt,
            lambda v=values, f=sample_fmt: digest(
                spdl.io.convert_frames(spdl.io.create_reference_audio_frame(v, f, 48000, 0))
            ),
        )
        show(f"{sample_fmt}, source", digest(values))
    frames = spdl.io.create_reference_audio_frame(_values((100, 2), "int16"), "s16", 48000, 7)
    show("sound", f"{frames.sample_rate} {frames.num_channels} {frames.num_frames} {frames.sample_fmt}")

    for pix_fmt in ("gray16", "gray16le", "gray16be"):
        values = _values((3, 8, 16), "int16") * 129
        frames = spdl.io.create_reference_video_frame(values, pix_fmt, (25, 1), 0)
        show(f"{pix_fmt} of int16", f"{len(frames)} {frames.pix_fmt}")
    frames = spdl.io.create_reference_video_frame(_values((6, 8, 16, 3), "uint8")[::2], "rgb24", (25, 1), 0)
    show("every second picture", digest(spdl.io.convert_frames(frames)))
    frames = spdl.io.create_reference_audio_frame(_values((2, 200), "float32")[:, :100], "fltp", 8000, 0)
    show("a part of each channel", digest(spdl.io.convert_frames(frames)))

    rgb = _values((2, 8, 16, 3), "uint8")
    mistakes = {
        "wrong number of axes": (rgb[0], "rgb24"),
        "wrong number of channels": (rgb[..., :2], "rgb24"),
        "wrong type": (rgb.astype("float32"), "rgb24"),
        "unknown format": (rgb, "nonsense"),
        "not contiguous": (rgb[:, :, ::2], "rgb24"),
        "not an array": ("text", "rgb24"),
    }
    for name, (values, pix_fmt) in mistakes.items():
        attempt(name, lambda v=values, p=pix_fmt: type(spdl.io.create_reference_video_frame(v, p, (25, 1), 0)).__name__)
    sound = _values((2, 100), "int16")
    mistakes = {
        "sound of another type": (sound, "fltp"),
        "sound of one axis": (sound[0], "s16p"),
        "sound of an unknown format": (sound, "nonsense"),
    }
    for name, (values, sample_fmt) in mistakes.items():
        attempt(
            name, lambda v=values, f=sample_fmt: type(spdl.io.create_reference_audio_frame(v, f, 48000, 0)).__name__
        )
