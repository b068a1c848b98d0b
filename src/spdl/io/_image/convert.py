"""Conversion of frames to one contiguous array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer, ImageFrames


def convert_image_frames(frames: ImageFrames | list[ImageFrames], storage: Any) -> CPUBuffer:
    """Return images as one array; `convert_frames` describes the arguments."""
    if isinstance(frames, native.ImageFrames):
        return native.convert_one(frames, storage)
    return native.convert_many(frames, storage)
