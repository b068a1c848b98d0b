"""The members of a tar archive, found by its headers alone: for archives that are read in parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import show
from spdl.io._archive.decompress import is_compressed
from spdl.io._common.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int, int], bytes]
    """Returns that many bytes from a position on; fewer only if the archive ends there."""

# "LENGTH KEY=VALUE\n"; the length counts the whole record.
_LENGTH = re.compile(rb"([0-9]{1,7}) ")
_MAX_SIZE = (1 << 62) - 1


class Attributes(NamedTuple):
    """The attributes of a member in pax headers; None for missing ones."""

    path: bytes | None = None
    size: int | None = None
    sparse: bool = False

    def over(self, other: Attributes) -> Attributes:
        """Return these, filled up from another header."""
        return Attributes(
            other.path if self.path is None else self.path,
            other.size if self.size is None else self.size,
            self.sparse or other.sparse,
        )


def read_pax(content: bytes, before: Attributes) -> Attributes:
    """Return the attributes of a header, filled up from the ones known before.

    Raises:
        FormatError: If a record is damaged; the message continues a sentence.
    """
    path, size, sparse = before
    place = 0
    while place < len(content) and content[place]:
        match = _LENGTH.match(content, place)
        end = place + int(match[1]) if match else place
        key, equals, value = content[match.end() : end - 1].partition(b"=") if match else (b"", b"", b"")
        if match is None or not equals or end > len(content) or content[end - 1 : end] != b"\n":
            raise FormatError(f"has a damaged attribute {show(content[place : place + 40])}")
        place = end
        if key == b"path":
            path = value
        elif key == b"size":
            size = _read_size(value)
        elif key.startswith(b"GNU.sparse."):
            sparse = True
            # The path of the newer formats is only for programs that do not know them.
            if key == b"GNU.sparse.name":
                path = value
    return Attributes(path, size, sparse)


def _read_size(value: bytes) -> int:
    # Digits first: int() also takes spaces, signs and underscores, and refuses thousands of digits.
    if value.isdigit() and len(value.lstrip(b"0")) <= len(str(_MAX_SIZE)) and int(value) <= _MAX_SIZE:
        return int(value)
    raise FormatError(f"gives a size that is no whole number, or that no memory could hold: {show(value)}")


_BLOCK = 512
_FIRST = 1 << 16
_WHOLE = 1 << 22
# A member that is smaller is read with its header: another request would cost more than the bytes that it saves.
_SMALL = 1 << 15
_SHARE = 256
_MOST = 1 << 16


class ReadAhead:
    """Reads ranges of an object in ascending order, each a bit further than it is asked for.

    If members are small, everything is read, in large pieces. Otherwise a 256th of the distance between two headers is
    read in advance, so that small members after a large one need no separate request.

    Args:
        fetch: Reads a number of bytes from a position on.
        begin: The start of the first range.
        apart: How many bytes lie between two headers at first, if that is known.
        stop: From where on nothing is read in advance, since others read it. None for the end of the object.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        begin: int = 0,
        *,
        apart: int | None = None,
        stop: int | None = None,
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._begin = begin
        self._apart = apart
        self._stop = size if stop is None else stop
        self._start = 0
        self._bytes = b""
        self._reads = 0

    def read(self, start: int, length: int) -> bytes:
        """Return a range; less of it if the object ends before."""
        end = min(start + length, self._size)
        if end <= start:
            return b""
        self._reads += 1
        if start < self._start or end > self._start + len(self._bytes):
            want = max(end - start, min(self._ahead(start), self._stop - start))
            self._bytes, self._start = self._fetch(start, want), start
        return self._bytes[start - self._start : end - self._start]

    def _ahead(self, start: int) -> int:
        apart = self._apart if start == self._begin else (start - self._begin) // self._reads
        if apart is None:
            return _FIRST
        if apart < _SMALL:
            return _WHOLE
        return min(-(-apart // (_SHARE * _BLOCK)) * _BLOCK, _MOST)


BLOCK = 512

_ZEROS = bytes(BLOCK)
_SUM = slice(148, 156)
_SIZE = slice(124, 136)
# Names and attributes have a few hundred bytes. A header that says more is damaged, or means harm.
_MAX_META = 1 << 20
_FILES = (b"\0", b"0", b"7")
# Names and attributes of the member that follows.
_META = (b"L", b"K", b"x", b"X", b"g")
# Links, devices, folders and pipes: their size does not count content.
_WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")


class MemberHeader(NamedTuple):
    """A regular file in an archive."""

    name: bytes
    offset: int
    """Where its content begins. Its header is the block before."""
    size: int


def read_headers(read: Read, size: int) -> Iterator[MemberHeader]:
    """Yield the regular files of an archive in ustar, GNU or pax format by reading only its headers.

    Args:
        read: Reads a range of the archive.
        size: The size of the archive in bytes.

    Raises:
        FormatError: If this is not a tar archive; if it is compressed, damaged or truncated, or holds a sparse file.
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
        size: The size of the archive in bytes.
    """

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        # The place of the header that is looked at.
        self._header = 0
        # The attributes from the headers before it: of its member, and of all that follow.
        self._here = self._everywhere = Attributes()
        self._long_name: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no header so far applies to all later members."""
        return self._everywhere == Attributes()

    def step(self, place: int) -> tuple[MemberHeader | None, int | None]:
        """Go over one member and the headers that belong to it.

        Args:
            place: The position of its first header.

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
            return (MemberHeader(name, content, size) if is_file else None), place
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
            # Two of them; the second may be missing.
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
    """Return the name in a header itself, which is cut off if an extension before it has the whole one."""
    name = block[:100].partition(b"\0")[0]
    # GNU's old headers have times in place of the prefix.
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def read_number(field: bytes) -> int:
    """Return the number in a field of a header.

    Raises:
        ValueError: If it is not a number; the message continues a sentence.
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
