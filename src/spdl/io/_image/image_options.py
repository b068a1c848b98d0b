"""How images become an array, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spdl._check import check_choice, check_flag, check_instance
from spdl.io._image.array_format import Dtype, Layout, make_array_format, make_factors
from spdl.io._image.config import DecodeConfig, DemuxConfig
from spdl.io._image.resize import PIXEL_FORMATS, Interpolation, Mode, resize_to

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ImageOptions:
    """How `load_image_batch` makes an array of images: size, pixels, values, layout.

    The record can be shared, compared, pickled and used as a key. ``dataclasses.replace`` makes another one. All fields
    mean what the arguments of `load_image_batch` do, except that `exif` stands for itself.

    Args:
        width: The width in pixels, or None to keep it.
        height: The height in pixels, or None to keep it.
        mode: How an image of another shape gets the size: ``"pad"``, ``"stretch"`` or ``"crop"``.
        interpolation: ``"nearest"``, ``"area"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``.
        layout: ``"NHWC"`` or ``"NCHW"``.
        dtype: ``"uint8"``, or ``"float32"`` or ``"float16"`` from 0 to 1.
        mean: A number for each channel to subtract from values of a float dtype. None is 0.
        std: A number for each channel by which they are divided afterwards. None is 1.
        exact: False allows a faster resize that is not Pillow's to the last bit.
        exif: Whether to turn photos upright as their EXIF data says. True, whatever the mode is.
        demux_config: How FFmpeg reads.
        decode_config: How to decode, and which images are too large.

    Raises:
        TypeError, ValueError: If a field is not as described; the message names it.

    Example:
        >>> options = ImageOptions(64, 48, mode="crop", dtype="float32", layout="NCHW", mean=[0.5] * 3, std=[0.25] * 3)
        >>> load_image_batch([photo, photo], options=options).shape
        (2, 3, 48, 64)
    """

    width: int | None
    """The width in pixels. None keeps the width."""
    height: int | None
    """The height in pixels. None keeps the height."""
    mode: Mode = "pad"
    """How an image of another shape gets the size."""
    interpolation: Interpolation = "bicubic"
    """The filter of the resize."""
    pix_fmt: str = "rgb24"
    """The channels, by FFmpeg's name."""
    layout: Layout = "NHWC"
    """Where the channels are."""
    dtype: Dtype = "uint8"
    """The type of the values."""
    mean: Sequence[float] | None = None
    """What is subtracted from each channel; kept as a tuple."""
    std: Sequence[float] | None = None
    """What each channel is divided by; kept as a tuple."""
    exact: bool = True
    """Whether the resize is Pillow's to the last bit."""
    exif: bool = True
    """Whether photos are turned upright."""
    demux_config: DemuxConfig | None = None
    """How FFmpeg reads."""
    decode_config: DecodeConfig | None = None
    """How to decode."""

    def __post_init__(self) -> None:
        """Check the fields, and make them hashable."""
        resize_to(self.width, self.height, self.mode, self.interpolation)
        check_choice("pix_fmt", self.pix_fmt, tuple(PIXEL_FORMATS))
        array_format = make_array_format(self.layout, self.dtype, self.mean, self.std)
        make_factors(array_format, PIXEL_FORMATS[self.pix_fmt])
        check_flag("exact", self.exact)
        check_flag("exif", self.exif)
        configs: tuple[tuple[str, Any, type[Any]], ...] = (
            ("demux_config", self.demux_config, DemuxConfig),
            ("decode_config", self.decode_config, DecodeConfig),
        )
        for name, config, kind in configs:
            if config is not None:
                check_instance(name, config, kind, f"what `{name}` returns, or None")
        object.__setattr__(self, "mean", array_format.mean)
        object.__setattr__(self, "std", array_format.std)
