"""Check that nothing grows while clips and sounds are decoded for long, damaged ones among them.

Claim: while 100,000 files are decoded in every way that `spdl.io` has, memory stays flat. The median resident memory
(of no file) in the last fifth of the run is at most 4 MB above that of the second fifth, and neither file descriptors
nor threads are left. What the C library keeps of freed memory is given back before each look, and recorded beside. Half
of the files are damaged: cut off, with changed bytes, emptied, or something else altogether.

Run it as `python benchmarks/clip_soak.py [--files N] [--json FILE]`. The files are made by the `ffmpeg` command.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import spdl.io as sio
from spdl.cli._common.machine import provenance

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 100_000
SAMPLES = 100
GROWTH_MB = 4.0

_PICTURES = ("-f", "lavfi", "-i", "testsrc2=size=96x72:rate=25:duration=0.8")
_SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.8")
# For each, the options of the ffmpeg command.
KINDS = {
    "h264.mp4": (*_PICTURES, *_SOUND, "-c:v", "libx264", "-bf", "2", "-pix_fmt", "yuv420p", "-c:a", "aac"),
    "h264.mkv": (*_PICTURES, *_SOUND, "-c:v", "libx264", "-pix_fmt", "yuv444p", "-c:a", "libmp3lame"),
    "mpeg4.avi": (*_PICTURES, *_SOUND, "-c:v", "mpeg4", "-c:a", "pcm_s16le"),
    "mpeg2.ts": (*_PICTURES, *_SOUND, "-c:v", "mpeg2video", "-c:a", "mp2"),
    "vp8.webm": (*_PICTURES, *_SOUND, "-c:v", "libvpx", "-c:a", "libvorbis"),
    "mjpeg.mov": (*_PICTURES, *_SOUND, "-c:v", "mjpeg", "-pix_fmt", "yuvj422p", "-c:a", "pcm_s16be"),
    "sound.flac": (*_SOUND, "-c:a", "flac"),
    "sound.mp3": (*_SOUND, "-c:a", "libmp3lame"),
    "sound.wav": (*_SOUND, "-c:a", "pcm_s16le"),
}


def make_files() -> list[bytes]:
    """Return a file of each kind."""
    with TemporaryDirectory() as folder:
        for name, options in KINDS.items():
            command = ["ffmpeg", "-nostdin", "-loglevel", "error", *options, str(Path(folder) / name)]
            subprocess.run(command, check=True, timeout=60)
        return [(Path(folder) / name).read_bytes() for name in KINDS]


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return a file with some damage."""
    kind = draw.randrange(4)
    if kind == 0:
        return data[: draw.randrange(len(data))]
    if kind == 1:
        return draw.choice([b"", b"no clip at all", bytes(1000), draw.randbytes(1000)])
    changed = bytearray(data)
    for _ in range(draw.choice([1, 3, 30])):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def by_parts(data: bytes) -> None:
    """Demux a window, decode the packets, and convert the frames."""
    packets = sio.demux_video(data, timestamp=(0.1, 0.6))
    sio.convert_frames(sio.decode_packets(packets.clone()))
    sio.convert_frames(sio.decode_packets(packets, filter_desc="hflip,scale=48:36"))


def by_steps(data: bytes) -> None:
    """Take some packets off a demuxer, decode them one after the other, and leave both."""
    with sio.Demuxer(data) as demuxer:
        decoder = sio.Decoder(demuxer.video_codec)
        for number, packets in enumerate(demuxer.streaming_demux(demuxer.video_stream_index, num_packets=3)):
            for frames in decoder.streaming_decode_packets(packets):
                sio.convert_frames(frames)
            if number == 2:  # noqa: PLR2004 - in the middle.
                return
        for frames in decoder.flush():
            sio.convert_frames(frames)


def by_index(data: bytes) -> None:
    """Read some frames in any order, one of them twice."""
    reader = sio.VideoReader(data, width=64, height=48)
    last = len(reader) - 1
    reader.read_frames([last, 0, last // 2, last // 2])


def by_sample(data: bytes) -> None:
    """Read a window of samples."""
    with sio.AudioReader(data, sample_rate=16000, num_channels=1) as reader:
        reader.read_samples(1000, 9000)


WAYS: dict[str, Callable[[bytes], object]] = {
    "load_video": sio.load_video,
    "load_audio": sio.load_audio,
    "packets": by_parts,
    "streaming": by_steps,
    "VideoReader": by_index,
    "AudioReader": by_sample,
}


def in_batches(files: list[bytes]) -> int:
    """Load files as batches of clips and of sounds, and return how many failed."""
    clips = sio.load_video_batch(files, num_frames=8, width=64, height=48, num_threads=2, on_error="zero")
    sounds = sio.load_audio_batch(files, sample_rate=16000, num_frames=8000, num_threads=2, on_error="zero")
    return len(clips.clips.failures) + len(sounds.samples.failures)


def resident_mb() -> float:
    """Return the process's resident memory, save for pages of files, which libraries bring in as they are used."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return int(lines["RssAnon"].split()[0]) * 1024 / 1e6


def left_open() -> tuple[int, int]:
    """Return the numbers of file descriptors and threads."""
    return len([*Path("/proc/self/fd").iterdir()]), len([*Path("/proc/self/task").iterdir()])


def soak(total: int) -> dict[str, Any]:
    """Decode files, and return the observations."""
    draw = random.Random(0)  # noqa: S311 - no secret.
    whole = make_files()
    memory: list[float] = []
    with_free: list[float] = []
    failed: Counter[str] = Counter()
    done = decoded = 0
    opened = left_open()
    begin = time.perf_counter()
    while done < total:
        files = [data if draw.randrange(2) else damaged(data, draw) for data in draw.choices(whole, k=16)]
        failed["batches"] += in_batches(files)
        done += 2 * len(files)
        for data in files:
            name = draw.choice(list(WAYS))
            try:
                WAYS[name](data)
                decoded += 1
            except (IndexError, ValueError, RuntimeError, OSError) as error:
                failed[f"{name}: {type(error).__name__}"] += 1
            done += 1
        while len(memory) < done * SAMPLES // total:
            with_free.append(resident_mb())
            ctypes.CDLL(None).malloc_trim(0)
            memory.append(resident_mb())
            opened = max(opened, left_open()) if len(memory) == SAMPLES // 5 else opened
    size = SAMPLES // 5
    return {
        "files": done,
        "files_per_second": done / (time.perf_counter() - begin),
        "failed": dict(failed.most_common()),
        "memory_mb": [median(memory[size : 2 * size]), median(memory[-size:])],
        "with_free_memory_mb": [median(with_free[size : 2 * size]), median(with_free[-size:])],
        "descriptors": [opened[0], left_open()[0]],
        "threads": [opened[1], left_open()[1]],
    }


def judge(result: dict[str, Any]) -> list[str]:
    """Return the claims that the result does not meet."""
    marks = {"memory_mb": GROWTH_MB, "descriptors": 0, "threads": 0}
    return [
        f"{name} grew from {result[name][0]:g} to {result[name][1]:g}, mark {most:g}"
        for name, most in marks.items()
        if result[name][1] - result[name][0] > most
    ]


def main() -> int:
    """Run it, then print and write the outcome. The exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Soak the decoding of clips and sounds.")
    parser.add_argument("--files", type=int, default=FILES, help="how many files (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()

    # Each damaged file would have its line.
    logging.disable(logging.WARNING)
    result = soak(options.files)
    missed = judge(result)
    early, late = result["memory_mb"]
    failed = sum(result["failed"].values())
    print(
        f"{result['files']:,} files, {result['files_per_second']:,.0f} a second, {failed:,} failed:"
        f" memory {early:.1f} MB in the second fifth, {late:.1f} MB in the last; {'met' if not missed else 'MISSED'}"
    )
    for line in missed:
        print(f"MISSED {line}")
    if options.json:
        options.json.write_text(json.dumps({"provenance": provenance(), **result}, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
