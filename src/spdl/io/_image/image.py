"""From a file to frames and an array, step by step or at once; and the pages of a TIFF."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from spdl._check import check_instance, check_int, refuse
from spdl.io._common.inputs import map_file, resolve_media, url_of
from spdl.io._common.native import native
from spdl.io._device.transfer import check_device_config, transfer_buffer
from spdl.io._image.config import (
    DEFAULT_MAX_PIXELS,
    DecodeConfig,
    DemuxConfig,
    check_ffmpeg_text,
    decode_options,
    demux_options,
)
from spdl.io._image.image_filters import DEFAULT_FILTER_DESC
from spdl.io._image.options import make_load_options, parse_served

if TYPE_CHECKING:
    from spdl.io._common.errors import LoadFailure
    from spdl.io._device.cuda import CUDAConfig
    from spdl.io._native import CPUBuffer, CUDABuffer, DemuxOptions, ImageFrames, ImagePackets


ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path, the encoded bytes, or an open binary file.

Bytes are ``bytes``, ``bytearray``, ``memoryview``, a one-dimensional uint8 array or tensor in main memory: anything
with the buffer protocol or ``__array__``. They are read in place, so they must not be written to during the call.
"""


def describe(resolved: object, name: str | None) -> str:
    """Return how error messages call a resolved input: `name` if there is one, else its path or its size."""
    if name is None and isinstance(resolved, str):
        name = resolved
    if name is not None:
        # Names that are not UTF-8 hold surrogates, which no message can carry; a null character would end it.
        return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00") or "''"
    return f"image of {memoryview(resolved).nbytes} bytes"  # type: ignore[arg-type]


def describe_failed(sources: Sequence[object], failure: LoadFailure) -> str:
    """Return how messages call an input that could not be loaded."""
    source = sources[failure.index]
    size = None if isinstance(source, str) else f"{memoryview(source).nbytes} bytes"  # type: ignore[arg-type]
    return describe(source, url_of(failure.source) or size)


def demux_image(
    src: ImageInput, *, demux_config: DemuxConfig | None = None, bsf: str | None = None, name: str | None = None
) -> ImagePackets:
    """Find the encoded image in a file or in bytes, without decoding it.

    A JPEG or PNG is not changed. In other formats, FFmpeg looks for the first picture. A file of no known format is an
    error that says what it seems to be.

    Args:
        src: A path or URL, the encoded bytes (kept and read in place: do not change them before the image is decoded),
            or an open binary file, which is read from its position to its end.
        demux_config: How FFmpeg reads; see `demux_config`. If it sets a format or an option, FFmpeg reads JPEG too.
        bsf: Bitstream filters to apply, in FFmpeg's syntax. FFmpeg then reads JPEG too.
        name: The image's name in errors. The default is the path, or the number of bytes.

    Returns:
        The packets, which `decode_packets` consumes.

    Raises:
        RuntimeError: If the input cannot be read, or holds no image. The message names it and the reason.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If `bsf` holds a null character.

    Example:
        >>> packets = demux_image(photo)
        >>> packets.width, packets.height
        (500, 375)
    """
    return demux_for(demux_options(demux_config, bsf), src, name)


def demux_for(options: DemuxOptions, src: ImageInput, name: str | None) -> ImagePackets:
    """Do what `demux_image` does, with options as native code takes them."""
    if name is not None:
        check_instance("name", name, str, "a str or None")
    resolved, name = resolve_media(src, name)
    if isinstance(resolved, str):
        return native.demux_file(resolved, describe(resolved, name), options)
    return native.demux_bytes(resolved, describe(resolved, name), options, None)


def decode_image_packets(
    packets: ImagePackets, filter_desc: str | None, decode_config: DecodeConfig | None
) -> ImageFrames:
    """Return the decoded and filtered image; `decode_packets` describes the arguments."""
    options = decode_options(decode_config)
    if filter_desc is None:
        return native.decode_filtered(packets, "", options)
    check_ffmpeg_text("filter_desc", filter_desc)
    resize = None if decode_config is not None and decode_config.backend == "ffmpeg" else parse_served(filter_desc)
    if resize is None:
        return native.decode_filtered(packets, filter_desc, options)
    return native.decode_resized(packets, make_load_options(resize), options)


def convert_image_frames(frames: ImageFrames | list[ImageFrames], storage: Any) -> CPUBuffer:
    """Return images as one array; `convert_frames` describes the arguments."""
    if isinstance(frames, native.ImageFrames):
        return native.convert_one(frames, storage)
    return native.convert_many(frames, storage)


Pages: TypeAlias = int | slice | Sequence[int]
"""A page of a TIFF by its number, or several; negative numbers count from the end."""

_ACCEPTED = "an int, a slice, a sequence of ints, or None"


class _File(NamedTuple):
    bytes: Any
    name: str


def count_pages(src: ImageInput, *, name: str | None = None) -> int:
    """Return how many pages a TIFF has, without decoding any.

    The pages are the directories in the chain that begins in the file's header, as in Pillow's ``n_frames``. Smaller
    versions and masks that are in it count; directories below others (``SubIFDs``) do not.

    Args:
        src: A path, the encoded bytes, or an open binary file. From a file at a path, only the directories are read.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Returns:
        The number of pages. `load_image` takes those below it as `pages`.

    Raises:
        RuntimeError: If the file cannot be read, is not a TIFF, or ends before the last directory does.
        TypeError: If an argument has the wrong type.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> pages = [Image.new("L", (4, 3), level) for level in (0, 100, 200)]
        >>> file = io.BytesIO()
        >>> pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
        >>> count_pages(file.getvalue())
        3
    """
    file = _open(src, name)
    return len(native.tiff_pages(file.bytes, file.name, None))


def load_pages(
    src: ImageInput,
    pages: Pages,
    *,
    filter_desc: str | None,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    name: str | None,
) -> CPUBuffer:
    """Return one page as an image, or several as a batch; `load_image` describes the arguments."""
    wanted = pages if isinstance(pages, slice) else _numbers(pages)
    file = _open(src, name)
    chosen = _choose(file, pages, wanted)
    options = demux_options(demux_config, None)
    frames: list[ImageFrames] = []
    for number, directory in chosen:
        packets = native.demux_bytes(file.bytes, f"{file.name}, page {number}", options, directory)
        frames.append(decode_image_packets(packets, filter_desc, decode_config))
        if _shape(frames[-1]) != _shape(frames[0]):
            raise RuntimeError(
                f"{file.name}: page {number} becomes {_shape(frames[-1])}, but page {chosen[0][0]} "
                f"{_shape(frames[0])}: load them one by one, or bring them to one size by `filter_desc`"
            )
        if len(frames) == 1 and len(chosen) > 1:
            _check_together(file, len(chosen), frames[0], decode_config)
    return native.convert_one(frames[0], None) if isinstance(wanted, int) else native.convert_many(frames, None)


def _numbers(pages: Any) -> int | list[int]:
    # Arrays of numpy and tensors; a single number from them is not a sequence.
    plain = pages.tolist() if hasattr(pages, "tolist") else pages
    if isinstance(plain, Sequence) and not isinstance(plain, (str, bytes)):
        return [check_int("pages", each, least=None, accepted=_ACCEPTED) for each in plain]
    return check_int("pages", plain, least=None, accepted=_ACCEPTED)


def _choose(file: _File, pages: Pages, wanted: int | slice | list[int]) -> list[tuple[int, int]]:
    """Return the number of each wanted page, and where its directory is."""
    numbers = [wanted] if isinstance(wanted, int) else wanted
    most = None
    if not isinstance(numbers, slice) and min(numbers, default=-1) >= 0:
        # The file need not be intact after the last wanted page.
        most = min(max(numbers), sys.maxsize - 1) + 1
    directories = native.tiff_pages(file.bytes, file.name, most)
    count = len(directories)
    has = f"{file.name} has {count} {'page' if count == 1 else 'pages'}"
    if isinstance(numbers, slice):
        numbers = list(range(count)[numbers])
    for number in numbers:
        if not -count <= number < count:
            refuse(IndexError, "pages", f"from {-count} to {count - 1}, as {has}", number)
    if not numbers:
        refuse(ValueError, "pages", f"at least one page ({has})", pages)
    return [(number % count, directories[number]) for number in numbers]


def _check_together(file: _File, count: int, first: ImageFrames, decode_config: DecodeConfig | None) -> None:
    """Refuse pages that have too many pixels: many directories may share the few bytes of one picture."""
    most = DEFAULT_MAX_PIXELS if decode_config is None else decode_config.max_pixels
    pixels = count * first.width * first.height
    if pixels > most:
        raise RuntimeError(
            f"{file.name}: {count} pages of {_shape(first)} have {pixels} pixels, more than the {most} that are "
            "allowed: load fewer at a time, or make them smaller by `filter_desc`; decode_config(max_pixels=...) "
            "allows more, if you trust the file"
        )


def _shape(frames: ImageFrames) -> str:
    return f"{frames.width}x{frames.height}, {frames.pix_fmt}"


def _open(src: ImageInput, name: str | None) -> _File:
    """Return the bytes of a file; only the ones that are used are read."""
    if name is not None:
        check_instance("name", name, str, "a str or None")
    resolved, name = resolve_media(src, name)
    shown = describe(resolved, name)
    if isinstance(resolved, str):
        try:
            resolved = map_file(resolved)
        except OSError as error:
            raise RuntimeError(f"{shown}: cannot open the file: {error.strerror}") from error
    return _File(resolved, shown)


@overload
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    pages: Pages | None = None,
    device_config: None = None,
    name: str | None = None,
) -> CPUBuffer: ...
@overload
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    pages: Pages | None = None,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    pages: Pages | None = None,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> CPUBuffer | CUDABuffer:
    """Load one image: `demux_image`, `decode_packets` and `convert_frames` in one.

    Args:
        src: A path, the encoded bytes, or an open binary file.
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
        filter_desc: The filters in FFmpeg's syntax; see `decode_packets`. The default gives 8-bit RGB in the image's
            own size.
        pages: Which pages of a TIFF to load: the number of one, which gives an image, or a slice or a sequence of
            numbers, which gives all of these in one array. ``slice(None)`` stands for all pages. They are counted
            from 0 as `count_pages` does, negative numbers from the end. A file at a path is mapped, so that only what
            these pages need is read; if it is truncated during the call, the process ends by SIGBUS. Each stored page,
            and all loaded pages together, may have the ``max_pixels`` of the `decode_config`. Several must have one
            size and pixel format, either stored or by `filter_desc`. libtiff decodes them: other formats are errors,
            and so are configurations that ask for FFmpeg. None loads the first picture, or, if that says that it is a
            smaller version, the one below it; a UserWarning says if other pages are left out that are more than smaller
            versions and masks.
        device_config: The GPU to copy the image to after the CPU has decoded it; see `cuda_config` and
            `transfer_buffer`. None leaves it in main memory.
        name: The image's name in errors. The default is the path, or the number of bytes.

    Returns:
        The image, by default uint8 (H, W, 3), with its own memory; for several pages (N, H, W, 3). With a
        `device_config` it is on the GPU, in a `CUDABuffer`. `convert_frames` describes the shapes of other formats.

    Raises:
        IndexError: If a page does not exist.
        RuntimeError: If the image cannot be read or decoded, pages differ, or CUDA reports an error.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If `filter_desc` holds a null character, or `pages` holds no page.

    Example:
        >>> load_image(photo).shape
        (375, 500, 3)

        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> scans = [Image.new("L", (60, 40), level) for level in (0, 100, 200)]
        >>> scans[0].save(file, "TIFF", save_all=True, append_images=scans[1:])
        >>> load_image(file.getvalue(), pages=-1).shape
        (40, 60, 3)
        >>> load_image(file.getvalue(), pages=slice(None), filter_desc=None).shape
        (3, 40, 60, 1)
    """
    check_device_config(device_config)
    if pages is None:
        for_ffmpeg = isinstance(decode_config, DecodeConfig) and decode_config.backend == "ffmpeg"
        packets = demux_for(demux_options(demux_config, None, for_ffmpeg=for_ffmpeg), src, name)
        buffer = convert_image_frames(decode_image_packets(packets, filter_desc, decode_config), None)
    else:
        buffer = load_pages(
            src,
            pages,
            filter_desc=filter_desc,
            demux_config=demux_config,
            decode_config=decode_config,
            name=name,
        )
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)
