"""The kinds of pictures that the page about images lists: how each is drawn, and what its pixels are held against."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from spdl.io import load_image, to_numpy
from tests.io.avif_files import avif, grid, picture
from tests.io.heif_files import colours, colr, heif, hevc, samples
from tests.io.image_files import AnyArray, bmp, png, pnm, run_length_bmp
from tests.io.images import encode, make_image
from tests.io.jpeg2000_files import code_of, jp2, palette
from tests.io.jpeg_files import flat_jpeg, lossless_jpeg

SIZE = (64, 48)
Drawn = tuple[bytes, AnyArray | None]
"""A file, and the pixels that its encoder was given, if these are what it is held against."""


@dataclass(frozen=True)
class Kind:
    """A row of the table. `draw` makes a file from a seed."""

    format: str
    colour: str
    bits: str
    alpha: bool = False
    more: str = ""
    draw: Callable[[int], Drawn] = field(repr=False, default=lambda _: (b"", None))
    page: int | None = None

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.format, self.colour, self.bits, "alpha" if self.alpha else "", self.more)))


def by_pillow(file_format: str, mode: str, seed: int, **options: Any) -> Drawn:
    """Draw a picture that Pillow writes, and reads again."""
    return encode(drawn(mode, seed), file_format, **options), None


def drawn(mode: str, seed: int) -> Image.Image:
    """Return a picture with all levels of alpha, if the mode has any."""
    image = make_image(*SIZE, seed)
    if mode in ("RGBA", "LA"):
        image.putalpha(make_image(*SIZE, seed + 1).convert("L"))
        return image.convert(mode)
    if mode == "I;16":
        levels = np.asarray(image.convert("L")).astype(np.uint16) * 256 + np.arange(SIZE[0], dtype=np.uint16)
        return Image.fromarray(levels)
    return image.quantize(200) if mode == "P" else image.convert(mode)


def frames(file_format: str, seed: int, **options: Any) -> Drawn:
    """Draw an animation or the pages of a document: three pictures."""
    first, *rest = (drawn("RGB", seed + number) for number in range(3))
    return encode(first, file_format, save_all=True, append_images=rest, **options), None


def by_hand(make: Callable[[AnyArray], bytes], channels: int, levels: int, seed: int) -> Drawn:
    """Draw a picture from samples (H, W, C) below `levels`."""
    noise = np.random.default_rng(seed).integers(0, levels, (SIZE[1], SIZE[0], channels))
    return make(noise), None


def deep(data: bytes, encoded: AnyArray, bits: int) -> Drawn:
    """Hold a file against the upper 8 bits of what was encoded."""
    return data, np.broadcast_to(encoded >> (bits - 8), (*encoded.shape[:2], 3)).astype(np.uint8)


def heic(seed: int, *, layout: str = "yuv420p", depth: int = 8, more: str = "") -> Drawn:
    shown = samples(*SIZE, layout, depth, seed)
    item = hevc(shown, colr(6, full=True))
    expected = colours(shown, depth=8).astype(np.uint8)
    if more == "grid":
        items = grid([item, item], 2, (2 * SIZE[0], SIZE[1]))
        return heif(*items), np.concatenate([expected, expected], 1)
    return heif(item), expected


def rare_jpeg(seed: int) -> Drawn:
    levels = np.random.default_rng(seed).integers(0, 1 << 12, (4, 5, 1))
    encoded = levels.repeat(8, 0).repeat(8, 1)
    return deep(flat_jpeg(levels), encoded, 12)


def jpeg2000_palette(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    entries = rng.integers(0, 256, (16, 3), dtype=np.uint8)
    indices = rng.integers(0, 16, (SIZE[1], SIZE[0]), dtype=np.uint8)
    code = code_of(encode(Image.fromarray(indices), "JPEG2000"))
    return jp2(code, "sRGB", palette(entries)), entries[indices]


def tiles(seed: int) -> Drawn:
    parts = [picture(drawn("RGB", seed + number).resize((64, 64))) for number in range(2)]
    return avif(grid(parts, 2, (128, 64))), None


def _pillow(file_format: str, *rows: tuple[str, str, bool, str, dict[str, Any]], name: str = "") -> list[Kind]:
    return [
        Kind(name or file_format, colour, "8", alpha, more, partial(by_pillow, file_format, mode, **options))
        for mode, colour, alpha, more, options in rows
    ]


def _png(channels: int, bits: int, color_type: int, colour: str, *, more: str = "") -> Kind:
    make = partial(png, depth=bits, color_type=color_type, interlaced=more == "interlaced")
    return Kind("PNG", colour, str(bits), channels % 2 == 0, more, partial(by_hand, make, channels, 1 << bits))


def _pnm(kind: int, levels: int, channels: int, colour: str, bits: str) -> Kind:
    return Kind("PNM", colour, bits, draw=partial(by_hand, partial(pnm, kind, levels), channels, levels + 1))


def _bmp(bits: int) -> Kind:
    colors = np.random.default_rng(bits).integers(0, 256, (1 << bits, 3))
    make = lambda noise: bmp(noise[..., 0], bits, palette=colors)  # noqa: E731
    return Kind("BMP", "palette", str(bits), draw=partial(by_hand, make, 1, 1 << bits))


KINDS: Sequence[Kind] = (
    *_pillow(
        "JPEG",
        ("L", "gray", False, "", {}),
        ("RGB", "YCbCr", False, "baseline", {"quality": 90}),
        ("RGB", "YCbCr", False, "progressive", {"progressive": True}),
        ("CMYK", "CMYK", False, "", {}),
    ),
    Kind("JPEG", "RGB", "8", more="lossless", draw=partial(by_hand, lossless_jpeg, 3, 256)),
    Kind("JPEG", "gray", "12", draw=rare_jpeg),
    *(_png(1, bits, 0, "gray") for bits in (1, 2, 4, 8, 16)),
    *(_png(3, bits, 2, "RGB") for bits in (8, 16)),
    *(_png(2, bits, 4, "gray") for bits in (8, 16)),
    *(_png(4, bits, 6, "RGB") for bits in (8, 16)),
    *(_png(3, bits, 2, "RGB", more="interlaced") for bits in (8, 16)),
    Kind("PNG", "palette", "8", draw=partial(by_pillow, "PNG", "P")),
    Kind("PNG", "RGB", "8", more="animation: the first", draw=partial(frames, "PNG")),
    Kind("GIF", "palette", "8", draw=partial(by_pillow, "GIF", "P")),
    Kind("GIF", "palette", "8", more="animation: the first", draw=partial(frames, "GIF")),
    *(_bmp(bits) for bits in (1, 4, 8)),
    Kind("BMP", "palette", "8", more="runs", draw=partial(by_hand, lambda a: run_length_bmp(a[..., 0]), 1, 16)),
    *_pillow("BMP", ("RGB", "RGB", False, "", {})),
    *_pillow("QOI", ("RGB", "RGB", False, "", {}), ("RGBA", "RGB", True, "", {})),
    _pnm(4, 1, 1, "gray", "1"),
    _pnm(5, 255, 1, "gray", "8"),
    _pnm(6, 255, 3, "RGB", "8"),
    _pnm(6, 65535, 3, "RGB", "16"),
    Kind("TIFF", "gray", "1", draw=partial(by_pillow, "TIFF", "1", compression="group4")),
    *_pillow(
        "TIFF",
        ("L", "gray", False, "LZW", {"compression": "tiff_lzw"}),
        ("P", "palette", False, "PackBits", {"compression": "packbits"}),
        ("RGB", "RGB", False, "deflate", {"compression": "tiff_deflate"}),
        ("RGBA", "RGB", True, "zstd", {"compression": "zstd"}),
        ("RGB", "RGB", False, "JPEG inside", {"compression": "jpeg"}),
        ("CMYK", "CMYK", False, "", {}),
        ("RGB", "RGB", False, "LZMA inside", {"compression": "lzma"}),
        ("LAB", "Lab", False, "", {}),
    ),
    Kind("TIFF", "gray", "16", draw=partial(by_pillow, "TIFF", "I;16")),
    Kind("TIFF", "gray", "float", draw=partial(by_pillow, "TIFF", "F")),
    Kind("TIFF", "RGB", "8", more="pages: the first", page=0, draw=partial(frames, "TIFF")),
    Kind("TIFF", "RGB", "8", more="pages: the last", page=-1, draw=partial(frames, "TIFF")),
    *_pillow(
        "WEBP",
        ("RGB", "YCbCr", False, "lossy", {}),
        ("RGBA", "YCbCr", True, "lossy", {}),
        ("RGB", "RGB", False, "lossless", {"lossless": True}),
        ("RGBA", "RGB", True, "lossless", {"lossless": True, "exact": True}),
        name="WebP",
    ),
    Kind("WebP", "YCbCr", "8", more="animation: the first", draw=partial(frames, "WEBP")),
    *_pillow(
        "AVIF",
        ("L", "gray", False, "", {"subsampling": "4:0:0"}),
        ("RGB", "YCbCr", False, "4:2:0", {}),
        ("RGB", "YCbCr", False, "4:4:4, limited range", {"subsampling": "4:4:4", "range": "limited"}),
        ("RGBA", "YCbCr", True, "", {}),
        ("RGBA", "YCbCr", True, "multiplied in", {"alpha_premultiplied": True}),
    ),
    Kind("AVIF", "YCbCr", "8", more="grid", draw=tiles),
    Kind("AVIF", "YCbCr", "8", more="animation: the first", draw=partial(frames, "AVIF")),
    Kind("HEIC", "YCbCr", "8", more="4:2:0", draw=heic),
    Kind("HEIC", "YCbCr", "8", more="4:4:4", draw=partial(heic, layout="yuv444p")),
    Kind("HEIC", "YCbCr", "10", draw=partial(heic, depth=10)),
    Kind("HEIC", "YCbCr", "8", more="grid", draw=partial(heic, more="grid")),
    *_pillow(
        "JPEG2000",
        ("L", "gray", False, "lossless", {}),
        ("RGB", "RGB", False, "lossless", {}),
        ("RGB", "RGB", False, "lossy", {"irreversible": True, "quality_layers": [20]}),
        ("RGBA", "RGB", True, "lossless", {}),
        name="JPEG 2000",
    ),
    Kind("JPEG 2000", "gray", "16", draw=partial(by_pillow, "JPEG2000", "I;16")),
    Kind("JPEG 2000", "palette", "8", draw=jpeg2000_palette),
)


def verdict(kind: Kind, seed: int) -> tuple[str, str]:
    """Return what we make of a picture, and what that is held against."""
    data, expected = kind.draw(seed)
    against = "Pillow" if expected is None else "what was encoded"
    try:
        filters = {"filter_desc": None} if kind.alpha else {}
        ours = to_numpy(load_image(data, pages=kind.page, **filters))
    except RuntimeError:
        return "refused", against
    if expected is None:
        expected = pillow_pixels(data, page=kind.page, alpha=kind.alpha)[..., -ours.shape[-1] :]
    if ours.dtype != expected.dtype:
        ours = (ours >> 8).astype(np.uint8)
    worst = int(np.abs(ours.astype(int) - expected).max())
    return "exact" if worst == 0 else f"at most {worst} off", against


def pillow_pixels(data: bytes, *, page: int | None = None, alpha: bool) -> AnyArray:
    """Return what Pillow makes of a picture; of gray of 16 bits, the upper 8."""
    with Image.open(io.BytesIO(data)) as image:
        if page is not None:
            image.seek(page % getattr(image, "n_frames", 1))
        if image.mode.startswith("I;16"):
            return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., np.newaxis], 3, -1)
        return np.asarray(image.convert("RGBA" if alpha else "RGB"))


def table(verdicts: Sequence[tuple[Kind, str, str]]) -> str:
    """Return the table of the page."""
    rows = [
        "| format | colours | bits | alpha | | read | held against |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, found, against in verdicts:
        alpha = "yes" if kind.alpha else ""
        rows.append(f"| {kind.format} | {kind.colour} | {kind.bits} | {alpha} | {kind.more} | {found} | {against} |")
    return "\n".join(rows) + "\n"
