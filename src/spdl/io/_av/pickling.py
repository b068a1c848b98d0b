"""Pickling of packets, by protocol 5 without a copy of their content."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import AudioPackets, ImagePackets, VideoPackets

_FIRST_WITH_BUFFERS = 5


def reduce_packets(packets: ImagePackets | AudioPackets | VideoPackets, protocol: int) -> tuple[Any, ...]:
    """Return the value of ``__reduce_ex__``. From protocol 5 on, the content may travel outside the pickle."""
    content: Any = packets._serialize()  # noqa: SLF001 - it is ours.
    kept = PickleBuffer(content) if protocol >= _FIRST_WITH_BUFFERS else content.tobytes()
    return restore_packets, (type(packets).__name__, kept)


def restore_packets(kind: str, content: Any) -> ImagePackets | AudioPackets | VideoPackets:
    """Return the packets in pickled content, in place.

    Raises:
        RuntimeError: If the content is damaged.
        ValueError: If it has no packets of that kind.
    """
    if kind == "ImagePackets":
        return native.ImagePackets.deserialize_view(content)
    if kind == "AudioPackets":
        return native.AudioPackets.deserialize_view(content)
    if kind == "VideoPackets":
        return native.VideoPackets.deserialize_view(content)
    msg = f"a pickle names packets of the kind {kind!r}, which do not exist: it was damaged on its way"
    raise ValueError(msg)
