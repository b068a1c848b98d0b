"""The rows of the benchmarks of video and audio: work, contenders and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _engine_rows import OURS, REFERENCE, Claim
from _image_environments import OWN, WHEEL
from _image_rows import OUR_WHEEL, Contender, Row
from _media_clips import LONG, SHORT, SMALL

if TYPE_CHECKING:
    from collections.abc import Mapping

PYAV, DECORD, TORCHCODEC, OPENCV, SOUNDFILE = "PyAV", "decord", "torchcodec", "OpenCV", "soundfile"
DECODE, FILTERS, CALLS = "decode only", "filter description", "calls of 0.8.0"

BILINEAR, BICUBIC, ALIASED, FULL = "bilinear", "bicubic", "bilinear, not antialiased", "full size"
ALONE, TOGETHER, CLIPS_TOGETHER = "frames_per_cpu_second", "frames_per_second", "clips_per_second"
FILES_ALONE, CALLS_ALONE = "files_per_cpu_second", "calls_per_cpu_second"

# Each contender's environment and module.
OF_SPDL = {OURS: (OWN, "spdl_reader"), OUR_WHEEL: (WHEEL, "spdl_reader"), REFERENCE: ("reference", "spdl_reader")}
OF_OTHERS = {
    PYAV: ("pyav", "pyav_reader"),
    DECORD: ("decord", "decord_reader"),
    TORCHCODEC: ("torchcodec", "torchcodec_reader"),
    OPENCV: ("opencv", "opencv_reader"),
}
READERS = OF_SPDL | OF_OTHERS
RESIZES = dict.fromkeys(READERS, BILINEAR) | {OPENCV: ALIASED}


def read(name: str, work: str, resize: str, workers: tuple[int, ...] = (1,), **arguments: Any) -> Contender:
    """Return a contender by its name."""
    environment, reader = READERS[name]
    return Contender(environment, {"work": work, "reader": reader} | arguments, resize, workers)


def compared(figure: str, names: Mapping[str, Contender], beside: str, mark: float | None = None) -> tuple[Claim, ...]:
    """Say what a figure of ours is, divided by that of another contender, and what it should be at least."""
    return tuple(Claim(figure, "at least", mark, beside, name) for name in (OURS, OUR_WHEEL) if name in names)


def whole(title: str, clip: str, times: int, *, mark: float | None = None) -> Row:
    """Compare whole clips with decoding alone, by the same build where a library decodes alone.

    The mark is on the ratio to the reference.
    """
    arguments = {"clip": clip, "times": times}
    contenders = {name: read(name, "video_work.whole", RESIZES[name], **arguments) for name in READERS}
    alone = {
        f"{name}, {DECODE}": read(name, "video_work.decoded", FULL, **arguments)
        for name in (OURS, OUR_WHEEL, REFERENCE, PYAV, OPENCV)
    }
    filters = {
        f"{name}, {FILTERS}": read(name, "video_work.filtered", BILINEAR, **arguments) for name in (OURS, OUR_WHEEL)
    }
    unresized = f"{TORCHCODEC}, not resized"
    alone[unresized] = read(TORCHCODEC, "video_work.decoded", FULL, **arguments)
    both = contenders | filters | alone
    limits = [
        Claim(ALONE, "at least", None if name == REFERENCE else 0.85, f"{name}, {DECODE}", name)
        for name in (OURS, OUR_WHEEL, REFERENCE)
    ]
    older = compared(ALONE, contenders, REFERENCE, mark)
    others = [claim for name in (PYAV, DECORD, TORCHCODEC, unresized) for claim in compared(ALONE, contenders, name)]
    return Row(title, ALONE, both, (*limits, *older, *others))


def by_calls() -> Row:
    """Compare the calls that the reference has, in both, and a reader, each with the reference's calls."""
    reader_marks, calls_marks = {BICUBIC: 1.38, BILINEAR: 1.42}, {BICUBIC: 1.35, BILINEAR: 1.3}
    contenders: dict[str, Contender] = {}
    claims: list[Claim] = []
    for resize in (BICUBIC, BILINEAR):
        arguments: dict[str, Any] = {"clip": SHORT, "times": 3, "interpolation": resize}
        beside = f"{REFERENCE}, {resize}"
        for way, work, marks in ((CALLS, "by_calls", calls_marks), ("VideoReader", "whole", reader_marks)):
            for name in (OURS, OUR_WHEEL):
                of = f"{name}, {way}, {resize}"
                contenders[of] = read(name, f"video_work.{work}", resize, **arguments)
                claims.append(Claim(ALONE, "at least", marks[resize], beside, of))
        contenders[beside] = read(REFERENCE, "video_work.by_calls", resize, **arguments)
    title = "a whole clip of 720p to 224x224 RGB by `demux_video`, `decode_packets` and `convert_frames`, one thread"
    return Row(title, ALONE, contenders, tuple(claims))


def together() -> Row:
    """Compare two clips at once."""
    contenders = {name: read(name, "video_work.whole", RESIZES[name], (2,), clip=SHORT, times=6) for name in READERS}
    title = "two clips of 720p at once, each with one decoder thread, to 224x224 RGB"
    claims = compared(TOGETHER, contenders, DECORD, 1.25) + compared(TOGETHER, contenders, REFERENCE)
    return Row(title, TOGETHER, contenders, claims, cores=2)


def picked() -> Row:
    """Compare random frames by index."""
    contenders = {name: read(name, "video_work.picked", FULL, clip=LONG, times=4) for name in READERS}
    claims = compared(ALONE, contenders, TORCHCODEC, 1.3) + compared(ALONE, contenders, DECORD, 1.3)
    return Row("10 random frames of a clip of 55 s by index, the index in memory", ALONE, contenders, claims)


def clips(workers: tuple[int, ...]) -> Row:
    """Compare whole loaders of clips."""
    loaders = {name: (name, "pipeline") for name in OF_SPDL}
    loaders |= {f"{name}, threads": (name, "threads") for name in (TORCHCODEC, DECORD, PYAV)}
    loaders |= {f"{name}, PyTorch DataLoader": (name, "data loader") for name in (TORCHCODEC, DECORD)}
    contenders = {
        label: read(name, "video_work.clips", FULL, workers, loader=loader, files=100)
        for label, (name, loader) in loaders.items()
    }
    others = [name for name in contenders if name not in (OURS, OUR_WHEEL)]
    claims = tuple(claim for name in others for claim in compared(CLIPS_TOGETHER, contenders, name, 1.5))
    return Row("8 clips of 16 frames from each of 100 files of 3 to 10 s", CLIPS_TOGETHER, contenders, claims)


def first() -> Row:
    """Compare how long it takes to the first frame."""
    names = [name for name in READERS if name != OPENCV]
    contenders = {name: read(name, "video_work.first", FULL, clip=SHORT, times=40) for name in names}
    claims = tuple(claim for name in names[2:] for claim in compared(CALLS_ALONE, contenders, name, 1.0))
    return Row("the first frame of a clip of 720p that is in memory", CALLS_ALONE, contenders, claims)


def video_rows(cores: float) -> dict[str, Row]:
    """Return all rows of video. Whole loaders try numbers of workers that suit the number of cores."""
    return {
        "whole": whole("a whole clip of 720p to 224x224 RGB, one thread", SHORT, 3, mark=1.4),
        "small": whole("a whole clip of 176x144 to 224x224 RGB, one thread", SMALL, 8),
        "calls": by_calls(),
        "together": together(),
        "picked": picked(),
        "clips": clips((1, 2, 4) if cores < 16 else (8, 16, 24)),  # noqa: PLR2004 - as for whole loaders of images.
        "first": first(),
    }


def sound(title: str, clip: str) -> Row:
    """Compare a whole sound at another rate. soundfile does not resample, and stands for decoding alone."""
    arguments = {"clip": clip, "times": 20}
    names = (*OF_SPDL, PYAV, TORCHCODEC)
    contenders = {name: read(name, "audio_work.whole", "resampled", **arguments) for name in names}
    work = {"work": "audio_work.whole", "reader": "soundfile_reader", "resampled": False} | arguments
    alone = f"{SOUNDFILE}, not resampled"
    contenders[alone] = Contender("soundfile", work, "not resampled")
    marks = {REFERENCE: 1.5, PYAV: 1.0, TORCHCODEC: 1.0, alone: None}
    claims = tuple(it for name, mark in marks.items() for it in compared(FILES_ALONE, contenders, name, mark))
    return Row(title, FILES_ALONE, contenders, claims)


def audio_rows() -> dict[str, Row]:
    """Return all rows of audio."""
    what = "10 s of stereo at 44.1 kHz, in memory, to float32, one channel, 16 kHz"
    return {name: sound(f"{name}: {what}", f"sound.{name}") for name in ("flac", "mp3", "wav")}
