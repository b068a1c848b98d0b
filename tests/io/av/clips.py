"""A clip for examples: one second of 25 pictures of 64x48 pixels."""

from pathlib import Path

import numpy as np

from spdl.io import Muxer, create_reference_video_frame, video_encode_config


def make_clip(path: Path) -> Path:
    """Write the clip as MPEG-4, whose encoder every FFmpeg has."""
    count, row, column = np.mgrid[:25, :48, :64]
    pictures = np.stack([(4 * row + 8 * count) % 256, 4 * column, 255 - 4 * column], -1).astype(np.uint8)
    muxer = Muxer(path)
    config = video_encode_config(height=48, width=64, frame_rate=25, gop_size=10)
    encoder = muxer.add_encode_stream(config, encoder="mpeg4")
    with muxer.open():
        packets = encoder.encode(create_reference_video_frame(pictures, "rgb24", 25, 0))
        if packets is not None:
            muxer.write(0, packets)
    return path
