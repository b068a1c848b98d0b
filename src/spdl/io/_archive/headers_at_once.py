"""The members of a large archive that lies far away, found from several places at once.

The position of a header is known only from the one before it. So an archive of a hundred thousand members takes as many
requests one after the other: more than an hour if each takes 40 ms. And an archive of small members, which is read as a
whole, comes no faster than one connection carries. Here the archive is cut into pieces. In each a header is looked for,
and from there on the headers are read, in a thread for each piece. The content of a member may look like a header, such
as an archive in the archive. So a piece counts only from a place on to which the way from the front leads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from spdl.io._archive.tar_headers import BLOCK, ReadAhead, Walk
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.io._archive.tar_headers import MemberHeader

    Fetch = Callable[[int, int], bytes]
    """Reads that many bytes from a position on."""

# After this many members it is known how far apart they are.
_ENOUGH = 64
# Far members: what counts is how many requests are under way. A store has fewer of them if its server slows down.
_MOST_PIECES = 64
# Near members: each piece has 4 MB of what it reads in memory.
_MOST_NEAR = 16
_LEAST_NEAR = 1 << 25
_LEAST_MEMBERS = 64
# The share of the archive that is read in addition to headers: a 400th.
_SHARE = 400
# Nearer ones are read with all that lies between them: another request would cost more.
_APART = 1 << 15
_SEARCHED = 1 << 16
_MAGIC, _MAGIC_AT = b"ustar", 257


class _ArchivePiece(NamedTuple):
    members: list[MemberHeader | None]
    """The findings of each step."""
    steps: dict[int, int]
    """The number of the step that began at a place."""
    end: int | None
    """Where the next step would begin."""


def read_headers_at_once(fetch: Fetch, size: int) -> Iterator[MemberHeader]:
    """Yield the regular files of an archive by reading only its headers: in ustar, GNU or pax format.

    Several threads call `fetch` at once. They end with the iterator. It raises a FormatError if this is not a plain tar
    archive, if it is damaged, or if it holds a sparse file.
    """
    walk = Walk(ReadAhead(fetch, size).read, size)
    pieces: list[_ArchivePiece] = []
    place: int | None = 0
    done = 0
    while place is not None:
        piece = next((each for each in pieces if place in each.steps), None) if walk.is_plain else None
        if piece is not None:
            yield from filter(None, piece.members[piece.steps[place] :])
            place = piece.end
            continue
        found, place = walk.step(place)
        done += 1
        if found is not None:
            yield found
        if done == _ENOUGH and place is not None and walk.is_plain:
            pieces = _look_through(fetch, size, place, place // done)


def _look_through(fetch: Fetch, size: int, begin: int, apart: int) -> list[_ArchivePiece]:
    """Read the headers of what is left, whose members are about so far apart."""
    left = size - begin
    if apart < _APART:
        count = min(_MOST_NEAR, left // _LEAST_NEAR)
    else:
        # Half the distance is searched for the first header of a piece, in steps.
        extra = apart // 2 + _SEARCHED
        count = min(_MOST_PIECES, left // apart // _LEAST_MEMBERS, left // _SHARE // extra)
    if count <= 1:
        return []
    length = -(-left // count // BLOCK) * BLOCK
    edges = [*range(begin, size, length), size]

    def read(number: int) -> _ArchivePiece:
        start, end = edges[number : number + 2]
        place = _find_header(fetch, start, end) if number else start
        return _ArchivePiece([], {}, None) if place is None else _read_piece(fetch, size, place, end, apart)

    with ThreadPoolExecutor(len(edges) - 1, "spdl-tar-headers") as executor:
        return list(executor.map(read, range(len(edges) - 1)))


def _read_piece(fetch: Fetch, size: int, place: int, end: int, apart: int) -> _ArchivePiece:
    piece = _ArchivePiece([], {}, None)
    walk = Walk(ReadAhead(fetch, size, place, apart=apart, stop=end).read, size)
    while place < end:
        try:
            found, following = walk.step(place)
        except FormatError:
            # In the archive, or in content that only looks like one: the chain from the front decides.
            break
        if following is None or not walk.is_plain:
            break
        piece.steps[place] = len(piece.members)
        piece.members.append(found)
        place = following
    return piece._replace(end=place)


def _find_header(fetch: Fetch, start: int, end: int) -> int | None:
    """Return the place of the first block that looks like a header, or None."""
    for first in range(start, end, _SEARCHED):
        searched = fetch(first, min(_SEARCHED, end - first))
        at = searched.find(_MAGIC)
        while at >= 0:
            place = at - _MAGIC_AT
            block = searched[place : place + BLOCK] if place >= 0 and place % BLOCK == 0 else b""
            if len(block) == BLOCK and native.look_at_tar_header(block) is not None:
                return first + place
            at = searched.find(_MAGIC, at + 1)
    return None
