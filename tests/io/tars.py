"""Tar archives of every make, by tarfile."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.io.inside import compress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

Members = list[tuple[str, bytes]]

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": compress_zstd,
}

_PART = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda part: part not in {".", ".."}
)
NAMES = st.one_of(
    st.lists(_PART, min_size=1, max_size=3).map("/".join),
    # Too long for a header, with and without a place to split it.
    st.integers(80, 300).map(lambda length: "n" * length),
    st.integers(80, 150).map(lambda length: f"{'d' * length}/{'n' * 99}"),
)
CONTENTS = st.one_of(
    st.binary(max_size=40), st.integers(500, 1600).map(lambda size: bytes(range(256)) * 7 + bytes(size))
)
OTHER_TYPES = [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]


def make_tar(members: Members, format: str = "gnu", others: bytes = b"") -> bytes:  # noqa: A002 - tarfile's word.
    """Have tarfile write these files, and between them one each of the types in `others`."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=FORMATS[format]) as archive:
        for index, (name, content) in enumerate(members):
            if index < len(others):
                other = tarfile.TarInfo(f"other{index}")
                other.type = others[index : index + 1]
                other.linkname = "l" * (90 + 20 * index)
                archive.addfile(other)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def read_tar(data: bytes) -> Members:
    """The members that tarfile finds."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive if member.isreg()]  # type: ignore[union-attr]


def reseal(header: bytearray) -> None:
    """Correct the checksum of a header that was changed."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
