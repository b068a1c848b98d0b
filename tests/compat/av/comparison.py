"""Run the programs, and compare what they print with what the released spdl 0.8.0 printed.

`expected/NAME.txt` is what the release printed. `better.toml` lists the lines where it has a defect or a limit that
users need not miss, each with what is to be printed instead, one of several values, and the reason.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from tests.io.av.media import clip

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
EXPECTED = HERE / "expected"

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in ("__main__", "showing"))

# What the programs read.
CLIPS = (
    "aac.m4a", "alac.m4a", "both.mkv", "both.mp4", "both_lossless.mkv", "cd.wav", "cut.mp4", "f32.wav", "f64.wav",
    "ffv1.mkv", "ffv1_420_10bit.mkv", "ffv1_422.mkv", "ffv1_444.mkv", "ffv1_alpha.mkv", "ffv1_gray.mkv", "ffv1_odd.mkv",
    "elementary.h264", "flac.flac", "gray.png", "h264.mkv", "h264.mp4", "h264.ts", "h264_10bit.mp4", "h264_cropped.mp4",
    "h264_lossless.mkv", "h264_lossless.mp4", "h264_ntsc.mp4", "h264_one_gop.mp4", "h264_one_picture.mp4",
    "h264_open_gop.mp4", "hevc.mp4", "hevc_lossless.mkv", "irregular.mp4", "mjpeg.avi", "mono.wav", "mp3.mp3",
    "mpeg2.ts", "mpeg4.mp4", "opus.ogg", "rgb.png", "rgba.png", "s16.aiff", "s16.mkv", "s16.wav", "s24.wav", "s32.wav",
    "surround.wav", "two_sounds.mkv", "u8.wav", "vorbis.ogg", "vp8.webm", "vp9.webm", "vp9_lossless.webm", "wavpack.wv",
)  # fmt: skip


class Better(NamedTuple):
    """A line where the release is not followed.

    Attributes:
        wanted: The values of which one is to be printed.
        why: What is wrong with the release's.
    """

    wanted: tuple[str, ...]
    why: str


def prepare() -> Path:
    """Make all clips that the programs read, and return their folder."""
    (folder,) = {clip(name).parent for name in CLIPS}
    return folder


def run_program(interpreter: Sequence[str], name: str, clips: Path, seconds: float = 100) -> tuple[dict[str, str], str]:
    """Run a program, and return its lines by label, and why it failed or "".

    Raises:
        ValueError: If two lines have the same label.
    """
    with TemporaryDirectory() as made:
        command = [*interpreter, str(PROGRAMS), name, str(clips), made]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    lines = read_lines(done.stdout)
    said = (done.stderr.strip().splitlines() or [""])[-1]
    return lines, "" if done.returncode == 0 else f"exit status {done.returncode}: {said}"


def read_lines(text: str) -> dict[str, str]:
    """Return the values of lines by their labels.

    Raises:
        ValueError: If two lines have the same label.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        label, _, value = line.partition(": ")
        if label in found:
            raise ValueError(f"two lines are labelled {label!r}")
        found[label] = value
    return found


def expected_lines(name: str) -> dict[str, str]:
    """Return what the release printed."""
    return read_lines((EXPECTED / f"{name}.txt").read_text(encoding="utf-8"))


def better_lines(name: str) -> dict[str, Better]:
    """Return the lines of a program where the release is not followed."""
    entries = tomllib.loads((HERE / "better.toml").read_text(encoding="utf-8")).get(name, {})
    return {label: Better(tuple(it["wanted"]), it["why"]) for label, it in entries.items()}


def agrees(found: str, wanted: str) -> bool:
    """Return whether a value is the wanted one. An exception may have more types than the wanted one has."""
    if wanted.startswith("raises ") and found.startswith("raises "):
        return _types(wanted)[0] in _types(found)
    return found == wanted


def differences(name: str, found: dict[str, str]) -> list[str]:
    """Return the lines that differ from what is wanted, in words."""
    expected, better = expected_lines(name), better_lines(name)
    told = []
    for label, value in expected.items():
        wanted = better[label].wanted if label in better else (value,)
        if label not in found:
            told.append(f"{label}: nothing, not {' or '.join(wanted)}")
        elif not any(agrees(found[label], it) for it in wanted):
            told.append(f"{label}: {found[label]}, not {' or '.join(wanted)}")
    told += [f"{label}: {found[label]}, which the release did not print" for label in found.keys() - expected.keys()]
    return told


def _types(value: str) -> list[str]:
    return value.removeprefix("raises ").split("/")
