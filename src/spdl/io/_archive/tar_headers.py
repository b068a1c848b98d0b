"""The members of a tar archive, found by its headers alone: for archives that are read in ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

from spdl._check import show
from spdl.io._archive.decompress import is_compressed
from spdl.io._archive.pax import Attributes, read_pax
from spdl.io._common.format_error import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int, int], bytes]
    """Returns so many bytes from a position on; fewer only if the archive ends there."""

__all__ = ["BLOCK", "Found", "Walk", "has_checksum", "member_name", "read_headers", "read_number"]

BLOCK = 512

_ZEROS = bytes(BLOCK)
_SUM = slice(148, 156)
_SIZE = slice(124, 136)
# Names and attributes have a few hundred bytes. A header that says more is damaged, or means harm.
_MAX_META = 1 << 20
_MAX_SIZE = (1 << 62) - 1
_FILES = (b"\0", b"0", b"7")
# Names and attributes of the member that follows.
_META = (b"L", b"K", b"x", b"X", b"g")
# Links, devices, folders and pipes: their size is not that of any content.
_WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")


class Found(NamedTuple):
    """A regular file in an archive."""

    name: bytes
    offset: int
    """Where its content begins. Its header is the block before."""
    size: int


def read_headers(read: Read, size: int) -> Iterator[Found]:
    """Yield the regular files of an archive in ustar, GNU or pax format, of which only the headers are read.

    Args:
        read: Reads a range of the archive.
        size: The size of the archive in bytes.

    Raises:
        FormatError: If this is no tar archive; if it is compressed, damaged or truncated, or holds a sparse file.
    """
    walk = Walk(read, size)
    place: int | None = 0
    while place is not None:
        found, place = walk.step(place)
        if found is not None:
            yield found


class Walk:
    """A way along the headers of an archive.

    Args:
        read: Reads a range of the archive.
        size: The size of the archive in bytes.
    """

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        # The place of the header that is looked at.
        self._header = 0
        # What the headers before it say of its member, and of all that follow.
        self._here = self._everywhere = Attributes()
        self._long_name: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no header so far says anything of all members behind it."""
        return self._everywhere == Attributes()

    def step(self, place: int) -> tuple[Found | None, int | None]:
        """Go over one member and the headers that belong to it.

        Args:
            place: Where the first of its headers is.

        Returns:
            The member if it is a regular file, and where the next one begins; None for both at the end.

        Raises:
            FormatError: If the archive is damaged or truncated here, or holds a sparse file.
        """
        while (block := self._header_at(place)) is not None:
            kind = block[156:157]
            content = place + BLOCK
            if kind in _META:
                size = self._number(block[_SIZE], "size")
                self._take_meta(kind, content, size)
                place = self._behind(content, size)
                continue
            name, size, is_file = self._take_member(block, kind)
            place = self._behind(content, size)
            if place > self._size:
                there = self._size - content
                raise FormatError(
                    f"the tar archive is truncated: it ends after {there} of the {size} bytes of {_quoted(name)} that "
                    f"begin at byte {content}"
                )
            return (Found(name, content, size) if is_file else None), place
        return None, None

    def _take_member(self, block: bytes, kind: bytes) -> tuple[bytes, int, bool]:
        """Return the name of a member, the size of its content, and whether it is a regular file."""
        attributes = self._here.over(self._everywhere)
        name = attributes.path if attributes.path is not None else self._long_name
        name = member_name(block) if name is None else name
        size = self._number(block[_SIZE], "size")
        size = size if attributes.size is None else attributes.size
        self._here, self._long_name = Attributes(), None
        if kind == b"S" or attributes.sparse:
            remedy = "write it with `tar --hole-detection=raw` or without `--sparse`"
            self._fail(f"holds the sparse file {_quoted(name)}, which cannot be read: {remedy}")
        if kind == b"M":
            self._fail(f"begins with the rest of the file {_quoted(name)} from another volume, which cannot be read")
        # Before folders had a type, their names ended so.
        is_folder = kind == b"\0" and name.endswith(b"/")
        return name, 0 if is_folder or kind in _WITHOUT_CONTENT else size, kind in _FILES and not is_folder

    def _take_meta(self, kind: bytes, content: int, size: int) -> None:
        if kind == b"K":
            # The target of a link. The name of its member may have been read before.
            return
        meta = self._meta(content, size)
        try:
            if kind == b"L":
                self._long_name = meta.partition(b"\0")[0]
            elif kind == b"g":
                self._everywhere = read_pax(meta, self._everywhere)
            else:
                self._here = read_pax(meta, Attributes())
        except FormatError as error:
            self._fail(str(error))

    def _header_at(self, place: int) -> bytes | None:
        """Return a header whose checksum is right; None at the end of the archive."""
        self._header = place
        block = self._read(place, BLOCK)
        if block == _ZEROS:
            # Two of them, of which the second may be missing.
            if (following := self._read(place + BLOCK, BLOCK)) in (_ZEROS, b""):
                return None
            self._header = place + BLOCK
            if len(following) == BLOCK:
                self._fail("goes on after a block of zeros, which is to be its end")
            self._fail_truncated(place + BLOCK + len(following))
        if place == 0 and is_compressed(block[:8]):
            raise FormatError(
                "the tar archive is compressed, so no member can be found without reading all before it: unpack it"
            )
        if len(block) < BLOCK:
            self._fail_truncated(place + len(block))
        said = self._number(block[_SUM], "checksum")
        if not has_checksum(block, said):
            self._fail("is none: its checksum is wrong" if place == 0 else "is damaged: its checksum is wrong")
        return block

    def _meta(self, content: int, size: int) -> bytes:
        if size > _MAX_META:
            self._fail(f"announces a name or attributes of {size} bytes, more than the {_MAX_META} that are accepted")
        meta = self._read(content, size)
        if len(meta) < size:
            raise FormatError(
                f"the tar archive is truncated: it ends after {len(meta)} of the {size} bytes that begin at byte "
                f"{content}"
            )
        return meta

    def _number(self, field: bytes, what: str) -> int:
        try:
            number = read_number(field)
        except ValueError as error:
            self._fail(f"gives a {what} {error}")
        return number

    def _behind(self, content: int, size: int) -> int:
        place = content + size + -size % BLOCK
        if place > _MAX_SIZE:
            self._fail("gives a size that no archive could have")
        return place

    def _fail(self, what: str) -> NoReturn:
        raise FormatError(f"the tar archive {what}, in the header at byte {self._header}")

    def _fail_truncated(self, end: int) -> NoReturn:
        how = "without the blocks of zeros that are to be its end" if end >= BLOCK else "in front of its first header"
        remedy = "; if no member is missing, append 1024 zero bytes" if end and not end % BLOCK else ""
        raise FormatError(f"the tar archive is truncated: it ends at byte {end}, {how}{remedy}")


def has_checksum(block: bytes, said: int) -> bool:
    """Return whether a header has this checksum."""
    rest = block[:148] + block[156:]
    total = sum(rest) + 8 * ord(" ")
    # Some old programs added signed characters.
    return said in (total, total - 256 * sum(byte > 0x7F for byte in rest))  # noqa: PLR2004


def member_name(block: bytes) -> bytes:
    """Return the name that a header itself has, which is cut off where an extension before it has the whole one."""
    name = block[:100].partition(b"\0")[0]
    # GNU's old headers have times in place of the prefix.
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def read_number(field: bytes) -> int:
    """Return the number in a field of a header.

    Raises:
        ValueError: If there is none; the message continues a sentence.
    """
    if field[0] & 0x80:
        # GNU's way to write large numbers: in base 256, marked by the first bit.
        if field[0] == 0xFF:  # noqa: PLR2004
            raise ValueError("that is negative")
        number = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    else:
        digits = field.lstrip(b" ").partition(b"\0")[0].partition(b" ")[0]
        if digits.strip(b"01234567"):
            raise ValueError(f"that is no octal number: {show(field)}")
        number = int(digits or b"0", 8)
    if number > _MAX_SIZE:
        raise ValueError("that no memory could hold")
    return number


def _quoted(name: bytes) -> str:
    return show(name.decode("utf-8", "surrogateescape"))
