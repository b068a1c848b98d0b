"""A batch of images, from their sources to one array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.io._convert import convert_frames
from spdl.io._decode import decode_packets
from spdl.io._demux import demux_image
from spdl.io._device import refuse_device
from spdl.io._failure import LoadFailure
from spdl.io._filter_desc import DEFAULT_FILTER_DESC, get_video_filter_desc
from spdl.io._lazy import native
from spdl.io._resize import Interpolation, Mode, resize_to, scale_flags
from spdl.io._source import ImageSource, describe, is_single, resolve
from spdl.io._storage import check_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._config import DecodeConfig, DemuxConfig
    from spdl.io._native import CPUBuffer, CPUStorage, ImageFrames

_SHOWN_FAILURES = 5


def load_image_batch(
    srcs: Iterable[ImageSource],
    *,
    width: int | None,
    height: int | None,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    device_config: None = None,
    storage: CPUStorage | None = None,
    mode: Mode = "pad",
    interpolation: Interpolation = "bicubic",
    strict: bool = True,
) -> CPUBuffer:
    """Load images into one array, resized to one size.

    With `pix_fmt`, the configurations and `filter_desc` left at their defaults, this is one native call: it reads,
    decodes and resizes each image straight into its row of the array, on the calling thread, without the GIL, without a
    Python object or an allocation per image. To use several cores, call it from several threads.

    The resize is antialiased and its results are those of Pillow 13's ``Image.resize`` with the interpolation of that
    name (``"area"`` is Pillow's BOX); older Pillows run the two passes over tall images in the other order, and round
    them slightly otherwise. JPEG is decoded by libjpeg-turbo with Pillow's settings; everything else by FFmpeg, and one
    batch may mix them. Only the first picture of an animation is taken, alpha is dropped, and the orientation that EXIF
    data names is not applied. A truncated JPEG is an error; where its data is damaged but complete, libjpeg goes on, as
    it does in Pillow.

    Args:
        srcs: Paths, encoded bytes, or open binary files, in any mixture.
        width: The width of the result in pixels. None leaves it as it is, or with ``mode="pad"`` and a height, lets it
            follow from the aspect ratio; all images must then come out in one size.
        height: The height of the result in pixels; None likewise.
        pix_fmt: The pixel format by FFmpeg's name. Anything but rgb24 is left to FFmpeg's filters, image by image.
        demux_config: How FFmpeg is to read; see `demux_config`. Giving it leaves the work to FFmpeg, image by image.
        decode_config: How FFmpeg is to decode; see `decode_config`. Likewise.
        filter_desc: Filters in FFmpeg's syntax, to be used in place of the resize: `width`, `height`, `mode`,
            `interpolation` and `pix_fmt` then have no effect.
        device_config: Must be None: this build decodes on the CPU.
        storage: Where to make the array, from `cpu_storage`. None is memory of its own.
        mode: ``"pad"`` keeps the aspect ratio and centres the image on black, ``"stretch"`` fills the size.
        interpolation: ``"nearest"``, ``"area"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        strict: Whether an image that fails is an error. Otherwise it is left out, the order of the others is kept, and
            ``failures`` of the result says which and why.

    Returns:
        The images, uint8 (B, H, W, 3). ``failures`` is a tuple of `LoadFailure`: index, source, reason.

    Raises:
        RuntimeError: If an image fails and `strict` is true, or if all of them fail; if the batch does not fit into
            the machine's memory or into `storage`: where both sides are given, before any image is read.
        MemoryError: If the system has no memory left for it.
        TypeError: If an argument is of another type, or one of `srcs` is no source: the message has its index.
        ValueError: If `srcs` is empty, or another argument is out of range.

    Example:
        >>> batch = load_image_batch([photo, photo], width=224, height=224, mode="stretch", interpolation="bilinear")
        >>> batch.shape
        (2, 224, 224, 3)
    """
    refuse_device(device_config)
    resize = resize_to(width, height, mode, interpolation)
    check_storage(storage)
    if is_single(srcs) or not isinstance(srcs, Iterable):
        msg = (
            f"`srcs` must be an iterable of sources, got {type(srcs).__name__}: "
            "for a batch of one image, pass a list, as in `load_image_batch([src], ...)`"
        )
        raise TypeError(msg)
    given = tuple(srcs)
    if not given:
        msg = "`srcs` is empty: a batch needs at least one image"
        raise ValueError(msg)
    sources = tuple(resolve(source, index) for index, source in enumerate(given))

    if pix_fmt == "rgb24" and demux_config is None and decode_config is None and filter_desc == DEFAULT_FILTER_DESC:
        buffer, reasons = native.load_batch(sources, resize, storage)
    else:
        if filter_desc == DEFAULT_FILTER_DESC:
            filter_desc = get_video_filter_desc(
                scale_width=width,
                scale_height=height,
                scale_mode="pad" if mode == "pad" else None,
                scale_algo=scale_flags(interpolation),
                pix_fmt=pix_fmt,
            )
        buffer, reasons = _load_one_by_one(sources, filter_desc, demux_config, decode_config, storage)

    if reasons and (strict or buffer is None):
        raise RuntimeError(_summary(sources, reasons, strict=strict))
    if buffer is None:  # pragma: no cover - without a reason there is a result.
        raise AssertionError
    if reasons:
        buffer._set_failures(tuple(LoadFailure(index, given[index], reason) for index, reason in reasons))  # noqa: SLF001
    return buffer


def _load_one_by_one(
    sources: Sequence[Any],
    filter_desc: str | None,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    storage: CPUStorage | None,
) -> tuple[CPUBuffer | None, list[tuple[int, str]]]:
    frames: list[ImageFrames] = []
    reasons = []
    for index, source in enumerate(sources):
        try:
            packets = demux_image(source, demux_config=demux_config)
            frames.append(decode_packets(packets, filter_desc, decode_config))
        except RuntimeError as error:
            # The summary and LoadFailure name the source themselves.
            reasons.append((index, str(error).removeprefix(f"{describe(source, None)}: ")))
    return (convert_frames(frames, storage) if frames else None), reasons


def _summary(sources: Sequence[Any], reasons: Sequence[tuple[int, str]], *, strict: bool) -> str:
    lines = [f"{len(reasons)} of {len(sources)} images could not be loaded"]
    lines += [
        f"  srcs[{index}], {describe(sources[index], None)}: {reason}" for index, reason in reasons[:_SHOWN_FAILURES]
    ]
    if len(reasons) > _SHOWN_FAILURES:
        lines.append(f"  and {len(reasons) - _SHOWN_FAILURES} more")
    if strict:
        lines.append("Pass strict=False to leave failed images out of the batch; its `failures` then lists them.")
    return "\n".join(lines)
