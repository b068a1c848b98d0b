"""The members of tar archives that lie in a store, found once from several places at once, and kept in a cache.

The position of a header is known only from the one before it. So an archive of a hundred thousand members takes as many
requests one after the other: more than an hour if each takes 40 ms. And an archive of small members, which is read as a
whole, comes no faster than one connection carries. Here the archive is cut into pieces. In each a header is looked for,
and from there on the headers are read, in a thread for each piece. The content of a member may look like a header, such
as an archive in the archive. So a piece counts only from a place on to which the way from the front leads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._files import cache_folder, only_one, replaced
from spdl.io._archive.members import TarColumns, TarIndex
from spdl.io._archive.tar_headers import BLOCK, ReadAhead, Walk
from spdl.io._array.npz import load_npz, save_npz
from spdl.io._common.errors import FormatError, name_path
from spdl.io._common.inputs import map_regular
from spdl.io._common.native import native
from spdl.io._common.one_version import ChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spdl.io._archive.tar_headers import MemberHeader
    from spdl.io._common.one_version import OneVersion
    from spdl.store import Entry

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


CachePath: TypeAlias = str | os.PathLike[str] | None
"""A folder; None is one in the user's cache."""

_IDENTITY = "identity"


def kept_arrays(
    kind: str, identity: str | None, cache: CachePath, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return arrays from a folder, or make them and keep them there. If several processes ask, one makes them.

    The folder is `cache`, or else the user's of that `kind`; it is not a failure if it cannot be written to. `identity`
    says what the arrays are of, and in which version; if that is unknown, they are made.
    """
    if identity is None:
        return make()
    text = identity.encode("utf-8", "surrogateescape")
    folder = cache_folder() / kind if cache is None else Path(cache)
    file = folder / f"{hashlib.sha256(text).hexdigest()[:32]}.index"
    known = _load(file, text)
    if known is not None:
        return known
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(only_one(file))
            known = _load(file, text)
        if known is not None:
            return known
        arrays = make()
        _save(file, arrays, text)
    return arrays


def _load(file: Path, identity: bytes) -> Mapping[str, Any] | None:
    """Return what is kept; None if there is nothing, or something damaged."""
    try:
        # All of them, since each is verified when it is taken.
        arrays = dict(load_npz(map_regular(file), verify=True))
        return arrays if arrays[_IDENTITY].tobytes() == _described(identity, arrays) else None
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return None


def _save(file: Path, arrays: Mapping[str, Any], identity: bytes) -> None:
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    with contextlib.suppress(OSError), replaced(file) as target:
        save_npz(target, {**arrays, _IDENTITY: np.frombuffer(_described(identity, arrays), np.uint8)})


def _described(identity: bytes, arrays: Mapping[str, Any]) -> bytes:
    """Return the arrays' identity and names: checksums reveal only damage to contents."""
    names = sorted(name for name in arrays if name != _IDENTITY)
    return b"\n".join((identity, *(name.encode("utf-8", "surrogateescape") for name in names)))


_VERSION = 1


def stored_tar_index(archive: OneVersion, cache: CachePath = None) -> TarIndex:
    """Find the members of a tar archive in a store, by reading its headers alone.

    The result is kept in a folder, which ranks and later runs may share: by default ``spdl/tar`` in the user's cache
    folder. If several processes want the same archive, one reads, and the others wait. An archive with another size or
    etag has another file there. Without an etag nothing is kept.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is not a tar archive, if it is compressed, damaged or truncated, if it holds a sparse file,
            or if it changes during the call.
        OSError: If it cannot be read.
    """
    from spdl.store._store import identity_of  # noqa: PLC0415 - only for those who have a store.

    entry = archive.entry
    assert entry is not None
    # Without an etag, another archive of the same size would have the same identity.
    named = f"{_VERSION}\n{identity_of(archive.store)}\n{entry.path}\n{entry.size}\n{entry.etag}"
    identity = None if entry.etag is None else named

    def read() -> Mapping[str, object]:
        return _read(archive, entry).arrays()

    return TarIndex(*TarColumns.load(kept_arrays("tar", identity, cache, read)))


def _read(archive: OneVersion, entry: Entry) -> TarColumns:
    def fetch(start: int, length: int) -> bytes:
        return bytes(archive.read([start], [length])[0])

    try:
        return TarColumns.of(read_headers_at_once(fetch, entry.size))
    except ChangedError:
        raise
    except FormatError as error:
        error.args = (f"{entry.path!r} in {archive.store!r}: {error}",)
        name_path(error, entry.path)
        raise
