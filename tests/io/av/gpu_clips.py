"""Real clips for the GPU that is made of main memory: what the ffmpeg command decodes, and ffprobe says of packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.io.av import oracle
from tests.io.device.yuv_colors import yuv_to_rgb

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gpu_libraries import FakeGpu


@dataclass(frozen=True)
class Shown:
    """What a GPU shows of a clip.

    Attributes:
        surfaces: (N, H * 3 / 2, W) in NV12, or in P016 with 16 bits, with even sides.
        keys: Whether decoding can begin with each frame.
        size: The width and the height that are shown.
        bits: How many bits a sample has.
    """

    surfaces: Any
    keys: list[bool]
    size: tuple[int, int]
    bits: int

    def rgb(self, matrix: int = 6, *, full_range: bool = False) -> Any:
        """Return (N, H, W, 3) in double precision."""
        width, height = self.size
        pixels = yuv_to_rgb(self.surfaces, matrix, bits=self.bits, full_range=full_range)
        return pixels.transpose(0, 2, 3, 1)[:, :height, :width]


def show(gpu: FakeGpu, path: Path, bits: int = 8, **settings: int) -> Shown:
    """Let the GPU decode what the ffmpeg command decodes."""
    (stream,) = [each for each in oracle.streams(path) if each["codec_type"] == "video"]
    width, height = int(stream["width"]), int(stream["height"])
    even = (width + 1) // 2 * 2, (height + 1) // 2 * 2
    flat = oracle.pictures(path, pix_fmt="nv12" if bits == 8 else "p010le")
    luma = flat[:, : width * height].reshape(-1, height, width)
    chroma = flat[:, width * height :].reshape(-1, even[1] // 2, even[0])
    luma = np.pad(luma, ((0, 0), (0, even[1] - height), (0, even[0] - width)), mode="edge")
    surfaces = np.concatenate([luma, chroma], 1)

    numerator, denominator = map(int, stream["time_base"].split("/"))
    packets = oracle.packets(path)
    by_time = {round(each.pts * denominator / numerator): each.key for each in packets if each.pts is not None}
    times = sorted(by_time)[: len(surfaces)]
    keys = [by_time[time] for time in times]
    gpu.set_video(surfaces, times, keys, bits=bits, shown_width=width, shown_height=height, **settings)
    return Shown(surfaces, keys, (width, height), bits)
