"""Colours from a GPU beside those of FFmpeg, over the whole cube of luma and chroma."""

from typing import Any

import numpy as np
import pytest
from tests.gpu_libraries import FakeGpu
from tests.io.av.ffmpeg import pipe_ffmpeg, run_ffmpeg
from tests.io.device.yuv_colors import yuv_to_rgb
from tests.io.inside import buffer_of

from spdl.io import cuda_config, nv12_to_rgb, to_numpy, transfer_buffer, transfer_buffer_cpu

SIDE = 16
MATRICES = {6: ("bt601", "170m"), 1: ("bt709", "709")}
"""By their numbers, what the filters scale and zscale call them."""


def cube() -> tuple[Any, Any]:
    """Return pictures that each have all luma and one chroma: (N, 24, 16) in NV12, and (N, 384) in planes."""
    levels = np.arange(0, 256, 15)
    blue, red = (each.ravel() for each in np.meshgrid(levels, levels))
    luma = np.tile(np.arange(256), (len(blue), 1))
    pairs = np.tile(np.stack([blue, red], -1), (1, SIDE * SIDE // 4))
    nv12 = np.concatenate([luma, pairs], 1).reshape(len(blue), -1, SIDE)
    planes = [np.repeat(each[:, None], SIDE * SIDE // 4, 1) for each in (blue, red)]
    return nv12.astype(np.uint8), np.concatenate([luma, *planes], 1).astype(np.uint8)


def ffmpeg(planes: Any, filters: str) -> Any:
    """Return what the ffmpeg command makes of planes: (N, 3, 16, 16)."""
    source = ("-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{SIDE}x{SIDE}", "-i", "pipe:0")
    raw = pipe_ffmpeg(planes.tobytes(), *source, "-vf", filters, "-pix_fmt", "rgb24", "-f", "rawvideo", "pipe:1")
    return np.frombuffer(raw, np.uint8).reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2).astype(int)


@pytest.mark.parametrize("matrix", MATRICES)
def test_colours_are_within_a_level_of_ffmpeg_where_that_rounds(fake_gpu: FakeGpu, matrix: int) -> None:
    nv12, planes = cube()
    config = cuda_config(0)
    there = transfer_buffer(buffer_of(nv12), device_config=config)
    ours = to_numpy(transfer_buffer_cpu(nv12_to_rgb(there, device_config=config, coeff=matrix))).astype(int)
    exact = yuv_to_rgb(nv12, matrix, full_range=False)
    assert np.abs(ours - exact).max() <= 0.51

    scale, zscale = MATRICES[matrix]
    if b" zscale " in run_ffmpeg("-filters"):  # Not every build has it.
        zimg = ffmpeg(planes, f"zscale=matrixin={zscale}:rangein=limited,format=gbrp")
        assert np.abs(ours - zimg).max() <= 1

    # By default FFmpeg cuts fractions off, more than once. So it is below the exact value, by up to three levels, and
    # so it is below ours.
    fast = ffmpeg(planes, f"scale=in_color_matrix={scale}:in_range=tv")
    assert (fast <= exact + 0.01).all()
    assert 2 < (exact - fast).max() < 3
    assert (ours - fast).min() >= 0
    assert (ours - fast).max() <= 3

    # It can be told to round. What is far from any colour then runs over in some releases.
    flags = "flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"
    accurate = ffmpeg(planes, f"scale=in_color_matrix={scale}:in_range=tv:{flags}")
    near = ((exact > 0) & (exact < 255)).all(1, keepdims=True)
    assert (near * np.abs(ours - accurate)).max() <= 1
