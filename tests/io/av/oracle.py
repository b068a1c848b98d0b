"""What the system's ffmpeg and ffprobe commands make of a file: pictures, samples, timestamps, streams.

The command may be another version of FFmpeg than the library that is tested. What codecs promise bit by bit compares
across versions (`Clip.lossless`, and the decoding of H.264, HEVC, VP8, VP9, AV1, FLAC and such). Conversions of
colours, scaling, resampling and the decoding of MP3, AAC, Vorbis or MPEG-4 need a tolerance.
"""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.io.av.encoded import RAW_FORMATS
from tests.io.av.ffmpeg import FFmpegError, run_ffmpeg, run_ffprobe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AnyArray = npt.NDArray[Any]

ROUNDS_OTHERWISE = platform.machine() != "x86_64"
"""Whether FFmpeg may round otherwise here than the command does, which is x86-64's beside an emulated processor."""

_INPUT = ("-noautorotate", "-threads", 1)
# Each picture of the file once: none is doubled or left out for a steady rate.
_AS_THEY_ARE = ("-fps_mode", "passthrough")
# Formats whose pictures are one array, and the axes after height and width.
_WHOLE: dict[str, tuple[int, ...]] = {"rgb24": (3,), "bgr24": (3,), "gray": (), "gray10le": (), "gray16le": ()}


@dataclass(frozen=True)
class Packet:
    """A packet of a stream, with times in seconds. A time is None where the file has none."""

    pts: Fraction | None
    dts: Fraction | None
    duration: Fraction | None
    size: int
    key: bool


def streams(path: Path) -> list[dict[str, Any]]:
    """Return ffprobe's fields of each stream."""
    found: list[dict[str, Any]] = json.loads(run_ffprobe("-of", "json", "-show_streams", path))["streams"]
    return found


def container(path: Path) -> dict[str, Any]:
    """Return ffprobe's fields of the container."""
    found: dict[str, Any] = json.loads(run_ffprobe("-of", "json", "-show_format", path))["format"]
    return found


def packets(path: Path, stream: str = "v:0") -> list[Packet]:
    """Return the packets of a stream, such as "v:0" or "a:1", in the order of the file."""
    found = json.loads(run_ffprobe("-of", "json", "-show_packets", "-show_streams", "-select_streams", stream, path))
    base = Fraction(found["streams"][0]["time_base"])
    return [_packet(it, base) for it in found["packets"]]


def frame_times(path: Path, stream: str = "v:0") -> list[Fraction | None]:
    """Return when each frame is shown, in seconds and in the order of showing."""
    command = ("-of", "json", "-show_frames", "-show_streams", "-select_streams", stream, path)
    found = json.loads(run_ffprobe(*command))
    base = Fraction(found["streams"][0]["time_base"])
    return [None if (pts := it.get("pts")) is None else pts * base for it in found["frames"]]


def pictures(path: Path, *, stream: int = 0, pix_fmt: str = "rgb24", filters: str = "") -> AnyArray:
    """Return all pictures of a video stream: (N, H, W, 3) for RGB, (N, H, W) for gray, (N, bytes) for other formats.

    Args:
        path: The file.
        stream: The number of the stream among the video streams.
        pix_fmt: The format that they are converted to, or "" to leave them in their own.
        filters: A filter graph that they pass first.
    """
    chain = ",".join(it for it in (filters, f"format={pix_fmt}" if pix_fmt else "") if it)
    with TemporaryDirectory() as name:
        listed = Path(name) / "listed"
        # One command for both, as starting it takes longer than its work.
        output = ["-map", f"0:v:{stream}", *(["-vf", chain] if chain else []), *_AS_THEY_ARE]
        raw = run_ffmpeg(*_INPUT, "-i", path, *output, "-f", "rawvideo", "pipe:1", *output, "-f", "framemd5", listed)
        lines = listed.read_text(encoding="ascii").splitlines()
    values = np.frombuffer(raw, np.uint16 if pix_fmt.endswith(("10le", "12le", "16le")) else np.uint8)
    if pix_fmt not in _WHOLE:
        return values.reshape(sum(not line.startswith("#") for line in lines), -1)
    (size,) = [line.rpartition(" ")[2] for line in lines if line.startswith("#dimensions")]
    width, _, height = size.partition("x")
    return values.reshape(-1, int(height), int(width), *_WHOLE[pix_fmt])


def are_same(found: AnyArray, expected: AnyArray) -> bool:
    """Return whether pictures in RGB, converted by FFmpeg, are those of the command, bit by bit on x86-64.

    On ARM, up to 3 of 255 levels may lie between them. Conversions of YUV by FFmpeg 7.1.5 there and on x86-64 were that
    far apart, by 0.7 on average, while ours and those of Debian's command for ARM were equal. A wrong frame is much
    further off.
    """
    if not ROUNDS_OTHERWISE:
        return np.array_equal(found, expected)
    return found.shape == expected.shape and np.abs(found.astype(int) - expected).max(initial=0) <= 3


def frame_hashes(path: Path, *, stream: int = 0, filters: str = "") -> list[str]:
    """Return the MD5 of each picture of a video stream, in its own pixel format or the one that the filters give it."""
    output = ["-map", f"0:v:{stream}", *(["-vf", filters] if filters else []), *_AS_THEY_ARE]
    printed = run_ffmpeg(*_INPUT, "-i", path, *output, "-f", "framemd5", "pipe:1")
    return [line.split(",")[-1].strip() for line in printed.decode().splitlines() if not line.startswith("#")]


def samples(
    path: Path, dtype: str = "f4", *, stream: int = 0, rate: int | None = None, channels: int | None = None
) -> AnyArray:
    """Return the samples of an audio stream (N, channels), converted to this NumPy type ("u1", "i2", "i4", "f4", "f8").

    What the container says is to be left out at both ends is left out. With `rate` or `channels`, FFmpeg converts.
    """
    options: list[object] = ["-ar", rate] if rate else []
    options += ["-ac", channels] if channels else []
    raw = run_ffmpeg("-i", path, "-map", f"0:a:{stream}", *options, "-f", RAW_FORMATS[dtype], "pipe:1")
    count = channels or int(_stream(path, "audio", stream)["channels"])
    return np.frombuffer(raw, dtype).reshape(-1, count)


def errors(path: Path) -> str:
    """Return what the ffmpeg command complains of while it decodes everything. It is empty for a sound file."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-map", "0", "-f", "null", "-"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    return done.stderr.decode(errors="replace")


def pyav_pictures(path: Path, indices: Sequence[int] | None = None) -> list[AnyArray]:
    """Return pictures of the first video stream in their own pixel format, decoded by PyAV on one thread.

    They are decoded from the start, so an index cannot lead to a wrong place. Only for formats that PyAV has arrays of.
    The test is skipped where PyAV is not installed.
    """
    found = [picture for _, picture in _pyav_decoded(path)]
    return found if indices is None else [found[index] for index in indices]


def pyav_picture_at(path: Path, seconds: float) -> AnyArray:
    """Return the picture that is shown at a time, as `pyav_pictures` does: the last one that begins by then."""
    shown = [picture for time, picture in _pyav_decoded(path) if time <= seconds]
    if not shown:
        raise FFmpegError(f"{path} shows nothing at {seconds} s")
    return shown[-1]


def _pyav_decoded(path: Path) -> list[tuple[float, AnyArray]]:
    """Return each picture with the time at which it begins, in the order of showing."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as file:
        file.streams.video[0].thread_type = "NONE"
        return [(frame.time, frame.to_ndarray()) for frame in file.decode(video=0)]


def _stream(path: Path, kind: str, number: int) -> Mapping[str, Any]:
    found = [it for it in streams(path) if it["codec_type"] == kind]
    if number >= len(found):
        raise FFmpegError(f"{path} has no {kind} stream {number}")
    return found[number]


def _packet(fields: Mapping[str, Any], base: Fraction) -> Packet:
    pts, dts, duration = (int(fields[key]) * base if key in fields else None for key in ("pts", "dts", "duration"))
    return Packet(pts, dts, duration, int(fields["size"]), "K" in fields["flags"])
