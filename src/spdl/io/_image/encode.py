"""Encoding of arrays as image files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_instance, check_int, check_str, refuse, refuse_masked
from spdl._files import replaced
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text, copy_ffmpeg_options
from spdl.io._image.image_filters import get_video_filter_desc
from spdl.io._image.options import MAX_SIDE, make_load_options, parse_served

if TYPE_CHECKING:
    import numpy as np

    ImageTarget: TypeAlias = str | os.PathLike[str] | IO[bytes]
    from collections.abc import Mapping


class ImageFormat(NamedTuple):
    """A file format: its suffixes, and FFmpeg's names of its encoder and muxer."""

    suffixes: tuple[str, ...]
    encoder: str
    muxer: str = ""
    """Empty if the output of the encoder is the file."""
    quality_option: str | None = None
    """The encoder's option for a quality from 1 to 100."""


FORMATS = {
    "jpeg": ImageFormat((".jpg", ".jpeg", ".jpe", ".jfif"), "mjpeg"),
    "png": ImageFormat((".png",), "png"),
    "webp": ImageFormat((".webp",), "libwebp", quality_option="quality"),
    "bmp": ImageFormat((".bmp", ".dib"), "bmp"),
    "tiff": ImageFormat((".tiff", ".tif"), "tiff"),
    "gif": ImageFormat((".gif",), "gif", "gif"),
    "jpeg2000": ImageFormat((".jp2",), "jpeg2000"),
    "avif": ImageFormat((".avif",), "libaom-av1", "avif"),
    "qoi": ImageFormat((".qoi",), "qoi"),
    "ppm": ImageFormat((".ppm",), "ppm"),
    "pgm": ImageFormat((".pgm",), "pgm"),
}

_BY_SUFFIX = {suffix: name for name, image_format in FORMATS.items() for suffix in image_format.suffixes}


def format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - half the time of a Path.
    if suffix not in _BY_SUFFIX:
        remedy = "Or name the format with `encode_image(..., encode_config=encode_config(format=...))`."
        refuse(ValueError, "path", f"a name that ends in one of {', '.join(_BY_SUFFIX)}", path, remedy)
    return _BY_SUFFIX[suffix]


class PixelFormat(NamedTuple):
    """How pixels lie in an array: (H, W, channels), or (channels, H, W) where each channel is a plane."""

    channels: int
    bits: int = 8
    planar: bool = False

    @property
    def alpha(self) -> bool:
        return self.channels in (2, 4)

    @property
    def shape(self) -> str:
        if self.planar:
            return f"({self.channels}, H, W)"
        return "(H, W) or (H, W, 1)" if self.channels == 1 else f"(H, W, {self.channels})"


_DEEP = {"gray16": 1, "ya16": 2, "rgb48": 3, "bgr48": 3, "rgba64": 4, "bgra64": 4}

PIXEL_FORMATS = {
    "rgb24": PixelFormat(3),
    "bgr24": PixelFormat(3),
    "rgba": PixelFormat(4),
    "bgra": PixelFormat(4),
    "gray": PixelFormat(1),
    "ya8": PixelFormat(2),
    "yuv444p": PixelFormat(3, planar=True),
    **{name + order: PixelFormat(channels, 16) for name, channels in _DEEP.items() for order in ("le", "be")},
}
"""The pixel formats by FFmpeg's names."""

_NATIVE_ORDER = "le" if sys.byteorder == "little" else "be"

ALIASES = {"gray8": "gray", "y400a": "ya8", "yuvj444p": "yuv444p", **{name: name + _NATIVE_ORDER for name in _DEEP}}
"""Other names of these. Names of 16-bit formats without a byte order mean the machine's order."""


def base_name(pix_fmt: str) -> str:
    """Return the name without a byte order."""
    return pix_fmt[:-2] if pix_fmt[:-2] in _DEEP else pix_fmt


Subsampling: TypeAlias = Literal["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"]

CHROMA_GRIDS: dict[Subsampling, tuple[int, int]] = {
    "4:4:4": (1, 1),
    "4:2:2": (2, 1),
    "4:2:0": (2, 2),
    "4:4:0": (1, 2),
    "4:1:1": (4, 1),
}
"""How many pixels share a chroma sample, across and down."""

_MAX_QUALITY = 100


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """How `encode_image` encodes.

    `encode_config` is another name of it. Any number of threads may share one. It holds a copy of options.

    Args:
        format: ``"jpeg"``, ``"png"``, ``"webp"``, ``"bmp"``, ``"tiff"``, ``"gif"``, ``"jpeg2000"``, ``"avif"``,
            ``"qoi"``, ``"ppm"`` or ``"pgm"``. None takes the format of the path's suffix.
        width, height: The size in pixels to scale to. None is the array's own. The two sides are scaled independently.
        scale_algo: FFmpeg's name of the interpolation, as in `get_video_filter_desc`. Images in rgb24, bgr24 and gray
            are scaled as `load_image_batch` does it, others by FFmpeg.
        quality: From 1 to 100, for WebP, and for JPEG that FFmpeg does not encode; otherwise it is an error. None is
            75. From 95 on, a JPEG becomes larger but hardly better.
        subsampling: How JPEG stores chroma: ``"4:4:4"`` at full resolution, ``"4:2:2"`` at half the width,
            ``"4:4:0"`` at half the height, ``"4:2:0"`` at half of both, ``"4:1:1"`` at a quarter of the width. None is
            ``"4:2:0"``. It has no effect on gray images.
        encoder: An encoder by FFmpeg's name, such as ``"librav1e"`` for AVIF, in place of the format's usual one.
            FFmpeg then encodes JPEG too.
        encoder_options: Options of FFmpeg's encoder, with values as text, such as ``{"lossless": "1"}`` for WebP or
            ``{"compression_level": "9"}`` for PNG. FFmpeg then encodes JPEG too.

    Raises:
        TypeError, ValueError: If an argument has the wrong type or is out of range, or a string holds a null character.

    Example:
        >>> encode_config(format="jpeg", quality=90).quality
        90
    """

    format: str | None = None
    width: int | None = None
    height: int | None = None
    scale_algo: str = "bicubic"
    quality: int | None = None
    subsampling: Subsampling | None = None
    encoder: str | None = None
    encoder_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_choice("format", self.format, (*FORMATS, None))
        for name, side in (("width", self.width), ("height", self.height)):
            if side is not None:
                check_int(name, side, least=1, most=MAX_SIDE)
        check_ffmpeg_text("scale_algo", self.scale_algo)
        if self.quality is not None:
            check_int("quality", self.quality, least=1, most=_MAX_QUALITY)
        check_choice("subsampling", self.subsampling, (*get_args(Subsampling), None))
        if self.encoder is not None:
            check_ffmpeg_text("encoder", self.encoder)
        object.__setattr__(self, "encoder_options", copy_ffmpeg_options("encoder_options", self.encoder_options))


encode_config = EncodeConfig


_DIMENSIONS = 3


class Pixels(NamedTuple):
    bytes: Any
    size: tuple[int, int]
    pix_fmt: str


def resolve_pixels(data: Any, pix_fmt: str) -> Pixels:
    check_str("pix_fmt", pix_fmt)
    name = ALIASES.get(pix_fmt, pix_fmt)
    if name not in PIXEL_FORMATS:
        refuse(ValueError, "pix_fmt", f"one of {', '.join([*PIXEL_FORMATS, *ALIASES])}", pix_fmt)
    pixel_format = PIXEL_FORMATS[name]
    array = as_array("data", data)
    check_dtype("data", array.dtype, name, pix_fmt)
    size = _size(array.shape, pixel_format, pix_fmt)
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    return Pixels(np.ascontiguousarray(array).reshape(-1).view(np.uint8), size, name)


def as_array(argument: str, data: Any) -> np.ndarray[Any, Any]:
    """Return an array in main memory as NumPy's, without a copy."""
    import numpy as np  # noqa: PLC0415

    if hasattr(data, "__cuda_array_interface__"):
        remedy = "It is on a GPU: copy it first, with `transfer_buffer_cpu` or the tensor's own `cpu()`."
        refuse(TypeError, argument, "in main memory", data, remedy)
    if not (hasattr(data, "__array_interface__") or hasattr(data, "__array__") or isinstance(data, memoryview)):
        accepted = "an array (NumPy, PyTorch, a CPUBuffer, or anything with `__array_interface__` or `__array__`)"
        refuse(TypeError, argument, accepted, data)
    refuse_masked(argument, data)
    return np.asarray(data)


def check_dtype(
    argument: str, dtype: np.dtype[Any], name: str, pix_fmt: str, error: type[ValueError] = ValueError
) -> None:
    """Check that an array has the bits of the pixel format `name`, which the user calls `pix_fmt`, in native order."""
    accepted = ("uint8",) if PIXEL_FORMATS[name].bits == 8 else ("uint16", "int16")  # noqa: PLR2004 - bits of a byte.
    if dtype.name not in accepted:
        refuse(error, argument, f"of dtype {' or '.join(accepted)} for the pixel format {pix_fmt!r}", dtype)
    if dtype.isnative:
        return
    order = "be" if sys.byteorder == "little" else "le"
    if not name.endswith(order):
        remedy = f"Its byte order is the other one: pass {name[:-2] + order!r}, or convert the array."
        refuse(error, argument, f"in the byte order of the pixel format {pix_fmt!r}", dtype.str, remedy)


def _size(shape: tuple[int, ...], pixel_format: PixelFormat, pix_fmt: str) -> tuple[int, int]:
    sides = (*shape, 1) if pixel_format.channels == 1 and len(shape) == _DIMENSIONS - 1 else shape
    fits = len(sides) == _DIMENSIONS and sides[0 if pixel_format.planar else 2] == pixel_format.channels
    height, width = (sides[1:] if pixel_format.planar else sides[:2]) if fits else (0, 0)
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        accepted = f"of shape {pixel_format.shape}, sides from 1 to {MAX_SIDE}, for the pixel format {pix_fmt!r}"
        refuse(ValueError, "data", accepted, shape)
    return width, height


_DEFAULT_QUALITY = 75
_LAMBDA_PER_QSCALE = 118  # FFmpeg's FF_QP2LAMBDA.


def encode_image(
    path: ImageTarget, data: Any, pix_fmt: str = "rgb24", *, encode_config: EncodeConfig | None = None
) -> None:
    """Write an array as an image file, in the format that the path's suffix or `encode_config` names.

    libjpeg-turbo encodes JPEG, with Pillow's settings; FFmpeg encodes everything else. Both run without the GIL. Pixels
    are never converted at a loss: lossless formats return the written values, apart from alpha channels that a format
    adds.

    Args:
        path: A path, or a file opened for writing in binary mode, for which `encode_config` must name a format. The
            file appears under its path when it is complete, and replaces an older one. If something fails, the older
            one stays.
        data: The image: a NumPy array, a PyTorch tensor in main memory, a `CPUBuffer`, or anything else with
            ``__array_interface__`` or ``__array__``. Do not write to it during the call. It is copied only if it has
            gaps.
        pix_fmt: The pixel format by FFmpeg's name, which says how pixels lie in `data`: ``"rgb24"`` and ``"bgr24"``
            uint8 (H, W, 3), ``"rgba"`` and ``"bgra"`` uint8 (H, W, 4), ``"gray"`` uint8 (H, W), ``"ya8"`` (gray and
            alpha) uint8 (H, W, 2), ``"yuv444p"`` uint8 (3, H, W), which in JPEG has all levels. With 16 bits, uint16 or
            int16: ``"gray16"`` (H, W), ``"ya16"`` (H, W, 2), ``"rgb48"`` and ``"bgr48"`` (H, W, 3), ``"rgba64"`` and
            ``"bgra64"`` (H, W, 4). These are in the machine's byte order; with ``le`` or ``be`` after the name, they
            are in that order.
        encode_config: The format, quality, size and FFmpeg's options; see `encode_config`. None is all defaults.

    Raises:
        OSError: If the file cannot be written.
        RuntimeError: If the FFmpeg in use has no such encoder, or the encoder fails. The message quotes the encoder.
        TypeError: If `data` is not an array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `pix_fmt`, if the format cannot hold such pixels (the message lists
            those that it can), if `quality` or `subsampling` does not apply, or if neither the path's suffix nor the
            configuration names a format.

    Example:
        >>> gradient = np.linspace(0, 255, 64 * 48 * 3).reshape(48, 64, 3).astype(np.uint8)
        >>> file = io.BytesIO()
        >>> encode_image(file, gradient, encode_config=encode_config(format="png", width=32, height=24))
        >>> load_image(file.getvalue()).shape
        (24, 32, 3)
    """
    if encode_config is None:
        encode_config = EncodeConfig()
    check_instance("encode_config", encode_config, EncodeConfig, "an EncodeConfig, as `encode_config` returns, or None")
    if isinstance(path, (str, os.PathLike)):
        name = os.fsdecode(path)
        content = _encoded(name, data, pix_fmt, encode_config)
        with replaced(name) as file:
            file.write(content)
        return
    if not hasattr(path, "write"):
        refuse(TypeError, "path", "a path (str or os.PathLike) or a binary file", path)
    if encode_config.format is None:
        remedy = "Pass `encode_config=encode_config(format=...)`."
        accepted = "a configuration with a `format`, since an open file has no suffix that names one"
        refuse(ValueError, "encode_config", accepted, encode_config, remedy)
    path.write(_encoded(None, data, pix_fmt, encode_config))


def save_image(
    path: ImageTarget,
    data: Any,
    pix_fmt: str = "rgb24",
    *,
    quality: int | None = None,
    subsampling: Subsampling | None = None,
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
    gop_size: int = -1,
    max_b_frames: int = -1,
    colorspace: str | None = None,
    color_primaries: str | None = None,
    color_trc: str | None = None,
) -> None:
    """Write an array as an image file. This is `encode_image` with separate options.

    Args:
        path: A path, whose suffix names the format.
        data: The image, as `encode_image` takes it.
        pix_fmt: How pixels lie in the array; see `encode_image`.
        quality: From 1 to 100, for JPEG and WebP. None is 75.
        subsampling: How JPEG stores chroma; see `encode_config`. None is ``"4:2:0"``.
        bit_rate: An option of FFmpeg's encoder. -1 leaves this option and those below to the encoder. If any of them is
            given, FFmpeg encodes JPEG, and then takes only yuv444p.
        compression_level: How hard to compress: 0 to 9 for PNG.
        qscale: The quantiser of FFmpeg's JPEG encoder, from 2 (best) to 31.
        gop_size, max_b_frames: Options of FFmpeg's encoder.
        colorspace: The colour space by FFmpeg's name, such as ``"bt709"``; stored if the format has a field for it.
        color_primaries, color_trc: The primaries and the transfer characteristic by FFmpeg's names, stored alike.

    Raises:
        OSError, RuntimeError, TypeError, ValueError: For the reasons that `encode_image` lists.

    Example:
        >>> path = photo.with_suffix(".png")
        >>> image = to_numpy(load_image(photo))
        >>> save_image(path, image)
        >>> bool((to_numpy(load_image(path)) == image).all())
        True
    """
    options = {}
    for name, argument, number in (
        ("b", "bit_rate", bit_rate),
        ("compression_level", "compression_level", compression_level),
        ("g", "gop_size", gop_size),
        ("bf", "max_b_frames", max_b_frames),
    ):
        if check_int(argument, number, least=None) >= 0:
            options[name] = str(number)
    if check_int("qscale", qscale, least=None) >= 0:
        options |= {"flags": "+qscale", "global_quality": str(qscale * _LAMBDA_PER_QSCALE)}
    for name, text in (("colorspace", colorspace), ("color_primaries", color_primaries), ("color_trc", color_trc)):
        if text is not None:
            check_ffmpeg_text(name, text)
            options[name] = text
    config = EncodeConfig(quality=quality, subsampling=subsampling, encoder_options=options or None)
    encode_image(path, data, pix_fmt, encode_config=config)


def _encoded(path: str | None, data: Any, pix_fmt: str, config: EncodeConfig) -> Any:
    name = config.format or format_of(path or "")
    image_format = FORMATS[name]
    with_libjpeg = name == "jpeg" and config.encoder is None and not config.encoder_options
    if config.subsampling is not None and not with_libjpeg:
        accepted = f"None for {name}: it is for JPEG that libjpeg-turbo encodes"
        refuse(ValueError, "subsampling", accepted, config.subsampling)
    if config.quality is not None and not with_libjpeg and image_format.quality_option is None:
        accepted = f"None for {name}: it is for JPEG that libjpeg-turbo encodes, and for WebP"
        refuse(ValueError, "quality", accepted, config.quality)
    pixels = resolve_pixels(data, pix_fmt)
    encoder = config.encoder or image_format.encoder
    try:
        _check_taken(pix_fmt, pixels.pix_fmt, name, None if with_libjpeg else encoder)
        pixels = _scaled(pixels, config)
        if with_libjpeg:
            grid = CHROMA_GRIDS[config.subsampling or "4:2:0"]
            return native.encode_jpeg(*pixels, config.quality or _DEFAULT_QUALITY, grid)
        options = list((config.encoder_options or {}).items())
        if config.quality is not None and image_format.quality_option is not None:
            options.append((image_format.quality_option, str(config.quality)))
        return native.encode_picture(*pixels, encoder, options, image_format.muxer)
    except RuntimeError as error:
        raise RuntimeError(f"{path or 'image'}: {error}") from None


def _check_taken(given: str, pix_fmt: str, name: str, encoder: str | None) -> None:
    """Raise ValueError unless the format can hold such pixels unchanged; `encoder` is None for libjpeg-turbo."""

    def takes(other: str) -> bool:
        return native.jpeg_takes(other) if encoder is None else native.encoder_takes(encoder, other)

    if takes(pix_fmt):
        return
    taken = ", ".join(dict.fromkeys(map(base_name, filter(takes, PIXEL_FORMATS))))
    by = "libjpeg-turbo" if encoder is None else f"FFmpeg's {encoder}"
    without_alpha = encoder is None and PIXEL_FORMATS[pix_fmt].alpha
    remedy = "A JPEG has no alpha: leave it out, as in `array[..., :3]`." if without_alpha else ""
    refuse(ValueError, "pix_fmt", f"one that {name}, written by {by}, can hold ({taken or 'none'})", given, remedy)


def _scaled(pixels: Pixels, config: EncodeConfig) -> Pixels:
    width, height = config.width or pixels.size[0], config.height or pixels.size[1]
    if (width, height) == pixels.size:
        return pixels
    desc = get_video_filter_desc(
        scale_width=width,
        scale_height=height,
        scale_mode=None,
        scale_algo=config.scale_algo,
        pix_fmt=pixels.pix_fmt,
    )
    assert desc is not None  # A size differs.
    resize = parse_served(desc)
    if resize is not None:
        scaled = native.resize_picture(*pixels, make_load_options(resize))
    else:
        scaled = native.filter_picture(*pixels, desc)
    # An array is in the machine's byte order.
    return resolve_pixels(scaled, base_name(pixels.pix_fmt))
