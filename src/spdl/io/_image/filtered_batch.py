"""Batches of images that go through FFmpeg's filters, image by image."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._image.decode import decode_image_packets
from spdl.io._image.demux import demux_image
from spdl.io._image.ffmpeg_text import check_ffmpeg_text
from spdl.io._image.image_input import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._native import CPUBuffer, ImageFrames


def load_filtered_batch(
    inputs: Sequence[Any],
    filter_desc: str | None,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    *,
    storage: Storage | None,
    num_threads: int,
) -> tuple[CPUBuffer | None, list[tuple[int, str]]]:
    """Return the array of the loaded images, None if all failed, and the index and reason of each failure."""
    if filter_desc is not None:
        # Here rather than in a thread, where the caller's line is not known.
        check_ffmpeg_text("filter_desc", filter_desc)

    def load(given: Any) -> ImageFrames | str:
        try:
            return decode_image_packets(demux_image(given, demux_config=demux_config), filter_desc, decode_config)
        except RuntimeError as error:
            # The caller names the input.
            return str(error).removeprefix(f"{describe(given, None)}: ")

    if num_threads == 1:
        outcomes = [load(given) for given in inputs]
    else:
        with ThreadPoolExecutor(num_threads) as pool:
            outcomes = list(pool.map(load, inputs))
    frames = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    reasons = [(index, outcome) for index, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    memory = resolve_storage(storage, None, "uint8")
    return (native.convert_many(frames, memory) if frames else None), reasons
