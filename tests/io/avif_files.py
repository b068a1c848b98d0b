"""AVIF and other files of items put together box by box, around pictures that others have encoded."""

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image

from tests.io.images import encode


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def full_box(kind: bytes, content: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags) + content)


@dataclass(frozen=True)
class Item:
    """A part of a file: what it is made of, its properties, and the numbers of the tiles that it consists of.

    `links` are its other references: their kinds, and the numbers of the items to which they point.
    """

    kind: bytes
    data: bytes
    properties: tuple[bytes, ...]
    tiles: tuple[int, ...] = ()
    extents: int = 1
    links: tuple[tuple[bytes, int], ...] = ()


def find_box(data: bytes, kind: bytes) -> bytes:
    at = data.index(kind) - 4
    return data[at : at + struct.unpack_from(">I", data, at)[0]]


def picture(image: Image.Image, **options: object) -> Item:
    data = encode(image, "AVIF", **options)
    properties = tuple(find_box(data, kind) for kind in (b"ispe", b"pixi", b"av1C", b"colr"))
    return Item(b"av01", find_box(data, b"mdat")[8:], properties)


def grid(tiles: Sequence[Item], columns: int, size: tuple[int, int]) -> list[Item]:
    """Return the items of a picture in tiles, row by row."""
    layout = struct.pack(">BBBBHH", 0, 0, len(tiles) // columns - 1, columns - 1, *size)
    extent = full_box(b"ispe", struct.pack(">II", *size))
    whole = Item(b"grid", layout, (extent, *tiles[0].properties[1:]), tuple(range(2, 2 + len(tiles))))
    return [whole, *tiles]


def cut_out(item: Item, *numbers: int) -> Item:
    """Return the item with a clean aperture: numerators and denominators of width, height and both offsets."""
    return replace(item, properties=(*item.properties, box(b"clap", struct.pack(">8i", *numbers))))


def _locations(items: Sequence[Item], begin: int, *, inside: bool, version: int) -> bytes:
    """Return the box `iloc`. The data lie together from `begin` on, with a byte between extents."""
    number_code = ">I" if version == 2 else ">H"
    entries = b""
    for number, item in enumerate(items, 1):
        method = b"" if version == 0 else struct.pack(">H", int(inside))
        entries += struct.pack(number_code, number) + method + struct.pack(">HH", 0, item.extents)
        for part in _parts(item):
            entries += struct.pack(">II", begin, len(part))
            begin += len(part) + 1
    return full_box(b"iloc", struct.pack(">BB", 0x44, 0) + struct.pack(number_code, len(items)) + entries, version)


def _parts(item: Item) -> list[bytes]:
    cuts = [len(item.data) * part // item.extents for part in range(item.extents + 1)]
    return [item.data[cut:end] for cut, end in itertools.pairwise(cuts)]


def avif(
    items: Sequence[Item],
    *,
    brands: bytes = b"avif\0\0\0\0avifmif1miaf",
    pitm_last: bool = False,
    inside: bool = False,
    iloc: int = 1,
) -> bytes:
    """Return a file whose picture is the first of the items.

    Args:
        items: They get the numbers from 1 on.
        brands: The content of the box `ftyp`.
        pitm_last: Whether the box that names the picture comes behind that which says where the data lie.
        inside: Whether the data lie in the box `idat`.
        iloc: The version of the box that says where the data lie.
    """
    data = b"\xff".join(part for item in items for part in _parts(item))
    infos = b"".join(
        full_box(b"infe", struct.pack(">HH4sB", number, 0, item.kind, 0), 2, int(number > 1))
        for number, item in enumerate(items, 1)
    )
    references = b"".join(
        box(b"dimg", struct.pack(f">HH{len(item.tiles)}H", number, len(item.tiles), *item.tiles))
        for number, item in enumerate(items, 1)
        if item.tiles
    ) + b"".join(
        box(kind, struct.pack(">HHH", number, 1, to)) for number, item in enumerate(items, 1) for kind, to in item.links
    )
    properties = list(dict.fromkeys(each for item in items for each in item.properties))
    associations = b"".join(
        struct.pack(">HB", number, len(item.properties))
        + bytes(0x80 | 1 + properties.index(each) for each in item.properties)
        for number, item in enumerate(items, 1)
    )
    described = box(b"ipco", b"".join(properties)) + full_box(b"ipma", struct.pack(">I", len(items)) + associations)
    named = full_box(b"pitm", b"\0\1")

    def meta(begin: int) -> bytes:
        located = _locations(items, begin, inside=inside, version=iloc)
        return full_box(
            b"meta",
            full_box(b"hdlr", bytes(4) + b"pict" + bytes(13))
            + (located + named if pitm_last else named + located)
            + full_box(b"iinf", struct.pack(">H", len(items)) + infos)
            + (full_box(b"iref", references) if references else b"")
            + box(b"iprp", described)
            + (box(b"idat", data) if inside else b""),
        )

    start = box(b"ftyp", brands)
    if inside:
        return start + meta(0)
    return start + meta(len(start) + len(meta(0)) + 8) + box(b"mdat", data)
