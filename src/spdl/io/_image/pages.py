"""The pages of a TIFF."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_instance, check_int, refuse
from spdl.io._common.inputs import resolve_media
from spdl.io._common.mapped_file import map_file
from spdl.io._common.native import native
from spdl.io._image.config import DEFAULT_MAX_PIXELS, demux_options
from spdl.io._image.decode import decode_image_packets
from spdl.io._image.image_input import ImageInput, describe

if TYPE_CHECKING:
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._native import CPUBuffer, ImageFrames

Pages: TypeAlias = int | slice | Sequence[int]
"""A page of a TIFF by its number, or several; negative numbers count from the end."""

_ACCEPTED = "an int, a slice, a sequence of ints, or None"


class _File(NamedTuple):
    bytes: Any
    name: str


def count_pages(src: ImageInput, *, name: str | None = None) -> int:
    """Return how many pages a TIFF has, without decoding any.

    The pages are those of the chain of directories that begins in the file's header, as in Pillow's ``n_frames``.
    Smaller versions and masks that are in it count; directories below others (``SubIFDs``) do not.

    Args:
        src: A path, the encoded bytes, or an open binary file. Of a file at a path, no more than the directories is
            read.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Returns:
        The number of pages. `load_image` takes those below it as `pages`.

    Raises:
        RuntimeError: If the file cannot be read, is no TIFF, or ends before the last directory does.
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
            msg = (
                f"{file.name}: page {number} becomes {_shape(frames[-1])}, but page {chosen[0][0]} "
                f"{_shape(frames[0])}: load them one by one, or bring them to one size by `filter_desc`"
            )
            raise RuntimeError(msg)
        if len(frames) == 1 and len(chosen) > 1:
            _check_together(file, len(chosen), frames[0], decode_config)
    return native.convert_one(frames[0], None) if isinstance(wanted, int) else native.convert_many(frames, None)


def _numbers(pages: Any) -> int | list[int]:
    """Return the number of a page, or of several."""
    # Arrays of numpy and tensors; a number of theirs is no sequence.
    plain = pages.tolist() if hasattr(pages, "tolist") else pages
    if isinstance(plain, Sequence) and not isinstance(plain, (str, bytes)):
        return [check_int("pages", each, least=None, accepted=_ACCEPTED) for each in plain]
    return check_int("pages", plain, least=None, accepted=_ACCEPTED)


def _choose(file: _File, pages: Pages, wanted: int | slice | list[int]) -> list[tuple[int, int]]:
    """Return the number of each wanted page, and where its directory is.

    Raises:
        IndexError: If there is no such page.
        ValueError: If none is wanted.
    """
    numbers = [wanted] if isinstance(wanted, int) else wanted
    most = None
    if not isinstance(numbers, slice) and min(numbers, default=-1) >= 0:
        # What follows the last wanted page need not be sound.
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
        msg = (
            f"{file.name}: {count} pages of {_shape(first)} have {pixels} pixels, more than the {most} that are "
            "allowed: load fewer at a time, or make them smaller by `filter_desc`; decode_config(max_pixels=...) "
            "allows more, if the file is to be trusted"
        )
        raise RuntimeError(msg)


def _shape(frames: ImageFrames) -> str:
    return f"{frames.width}x{frames.height}, {frames.pix_fmt}"


def _open(src: ImageInput, name: str | None) -> _File:
    """Return the bytes of a file, of which only those that are looked at are read."""
    if name is not None:
        check_instance("name", name, str, "a str or None")
    resolved, name = resolve_media(src, name, files=True)
    shown = describe(resolved, name)
    if isinstance(resolved, str):
        try:
            resolved = map_file(resolved)
        except OSError as error:
            msg = f"{shown}: cannot open the file: {error.strerror}"
            raise RuntimeError(msg) from error
    return _File(resolved, shown)
