"""Chosen frames of packets."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from spdl._check import check_instance, check_int, refuse
from spdl.io._av.default_filter import DEFAULT, FilterDesc, filters_of
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, decode_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._native import ImageFrames, VideoPackets


def sample_decode_video(
    packets: VideoPackets,
    indices: Sequence[int],
    *,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
) -> list[ImageFrames]:
    """Decode chosen frames, and only the packets that they need.

    `VideoReader` does so for a whole file, in any order and without holding its packets in memory.

    Args:
        packets: The packets, which are consumed.
        indices: The frames among those within the window of the packets, in the order in which they are shown:
            ascending, each once.
        decode_config: How to decode; see `decode_config`.
        filter_desc: The filters in FFmpeg's syntax, as for `decode_packets`. Each frame goes through filters of its
            own, so filters that count frames or look at several make no sense here.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        IndexError: If there is no such frame.
        RuntimeError: If a frame cannot be decoded, or the filters cannot be applied.
        TypeError: If `packets` are not `VideoPackets` or were consumed before, or an index is not an int.
        ValueError: If no indices are given, or they are not in ascending order, each once.

    Example:
        >>> frames = sample_decode_video(demux_video(clip), [0, 10, 20])
        >>> convert_frames(frames).shape
        (3, 48, 64, 3)
    """
    check_instance("packets", packets, native.VideoPackets, "VideoPackets, as `demux_video` returns")
    count = len(packets)
    if hasattr(indices, "__len__") and len(indices) > count:
        refuse(IndexError, "indices", f"at most the {count} frames that there are", indices)
    wanted = [check_int(f"indices[{i}]", index, least=None) for i, index in enumerate(indices)]
    if not wanted or any(a >= b for a, b in itertools.pairwise(wanted)):
        refuse(ValueError, "indices", "at least one index, in ascending order, each once", indices)
    if wanted[0] < 0 or wanted[-1] >= count:
        refuse(IndexError, "indices", f"from 0 to {count - 1}", indices)
    frames = native.sample_video(packets, wanted, filters_of(filter_desc, audio=False), decode_options(decode_config))
    return [frames[i] for i in range(len(frames))]
