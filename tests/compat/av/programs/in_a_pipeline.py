"""Clips through a pipeline: demuxed, decoded and converted in stages, and demuxed in another process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, numbers, show

import spdl.io
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("h264.mp4", "h264.mkv", "hevc.mp4", "vp9.webm", "mpeg4.mp4", "ffv1.mkv")


def _demux(task: tuple[Path, float]) -> object:
    path, start = task
    return spdl.io.demux_video(path, timestamp=(start, start + 0.32))


def _decode(packets: object) -> object:
    desc = spdl.io.get_filter_desc(packets, scale_width=64, scale_height=48)
    return spdl.io.decode_packets(packets, filter_desc=desc)


def _convert(frames: list[object]) -> object:
    return array(spdl.io.convert_frames(frames))


def _demux_all(paths: list[Path]) -> Iterator[object]:
    return (spdl.io.demux_video(path) for path in paths)


def main(clips: Path, made: Path) -> None:
    tasks = [(clips / name, start) for name in _NAMES for start in (0, 0.48, 1.0)]
    pipeline = (
        PipelineBuilder()
        .add_source(tasks)
        .pipe(_demux, concurrency=2, output_order="input")
        .pipe(_decode, concurrency=4, output_order="input")
        .aggregate(6)
        .pipe(_convert, output_order="input")
        .add_sink(2)
        .build(num_threads=4)
    )
    with pipeline.auto_stop():
        for index, batch in enumerate(pipeline):
            show(f"batch {index}", f"{batch.dtype} {batch.shape} {', '.join(numbers(it) for it in batch)}")

    paths = [clips / "ffv1.mkv", clips / "h264_lossless.mp4"]
    for index, packets in enumerate(iterate_in_subprocess(partial(_demux_all, paths))):
        frames = spdl.io.decode_packets(packets, filter_desc=None)
        show(f"from another process {index}", digest(spdl.io.convert_frames(frames)))

    pipeline = PipelineBuilder().add_source([clips / "flac.flac"] * 8).pipe(spdl.io.load_audio, concurrency=4)
    pipeline = pipeline.add_sink().build(num_threads=4)
    with pipeline.auto_stop():
        values = [array(it) for it in pipeline]
    show("sounds", f"{len(values)} {all(np.array_equal(it, values[0]) for it in values)}")
    attempt("one by one", lambda: numbers(spdl.io.load_video(clips / "h264.mp4", (0.2, 0.4))))
