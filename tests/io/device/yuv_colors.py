"""The colours of video frames, by the equations of ITU-T H.273, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

SHARES = {
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}
"""The shares of red and blue in luma of each matrix."""


def yuv_to_rgb(frames: Any, matrix: int, *, bits: int = 8, full_range: bool) -> Any:
    """Return (N, 3, H, W), from 0 to 255, of frames (N, H * 3 / 2, W) in NV12, or in P016 if they have more bits.

    Each sample of chroma stands for four pixels.
    """
    count, rows, width = frames.shape
    height = rows * 2 // 3
    samples = (frames >> (16 - bits) if bits > 8 else frames).astype(np.float64)
    step = 1 << (bits - 8)
    luma = samples[:, :height]
    pairs = samples[:, height:].reshape(count, height // 2, width // 2, 2) - 128 * step
    blue, red = (np.kron(pairs[..., i], np.ones((1, 2, 2))) for i in range(2))
    if full_range:
        most = 256 * step - 1
        luma, blue, red = luma / most, blue / most, red / most
    else:
        luma, blue, red = (luma - 16 * step) / (219 * step), blue / (224 * step), red / (224 * step)
    share_red, share_blue = SHARES[matrix]
    r = luma + 2 * (1 - share_red) * red
    b = luma + 2 * (1 - share_blue) * blue
    g = (luma - share_red * r - share_blue * b) / (1 - share_red - share_blue)
    return np.clip(np.stack([r, g, b], 1) * 255, 0, 255)
