"""Headers of an archive that a URL names: the members that tarfile finds, and the refusals of the native reader."""

from __future__ import annotations

import io
import itertools
import tarfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.file_server import serving
from tests.io.tars import COMPRESSIONS, CONTENTS, NAMES, OTHER_TYPES, make_tar, read_tar, reseal

from spdl.io import FormatError, TarFile, iter_tarfile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ARCHIVES = st.builds(
    make_tar,
    st.lists(st.tuples(NAMES, CONTENTS), max_size=5),
    # The oldest format has no long names.
    st.sampled_from(["gnu", "pax"]),
    st.lists(st.sampled_from(OTHER_TYPES), max_size=5).map(b"".join),
)


Find = Callable[[bytes], list[tuple[str, bytes]]]


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Find]:
    """Return a function that reads an archive from a server, in ranges."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(tmp_path) as server:
        # An archive with the name, size and time of another has the index of that one.
        numbers = itertools.count()

        def find(data: bytes) -> list[tuple[str, bytes]]:
            path = tmp_path / f"{next(numbers)}.tar"
            path.write_bytes(data)
            try:
                return [(name, bytes(content)) for name, content in TarFile(f"{server.url}/{path.name}")]
            finally:
                path.unlink()

        yield find


def native(data: bytes) -> list[tuple[str, bytes]]:
    return [(name, bytes(content)) for name, content in iter_tarfile(data)]


one_server = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@one_server
@given(
    st.lists(st.tuples(NAMES, CONTENTS), max_size=6),
    st.sampled_from(["gnu", "pax"]),
    st.lists(st.sampled_from(OTHER_TYPES), max_size=6).map(b"".join),
)
def test_finds_what_tarfile_finds(find: Find, members: list[tuple[str, bytes]], kind: str, others: bytes) -> None:
    data = make_tar(members, kind, others)
    assert find(data) == members == read_tar(data)


@one_server
@given(ARCHIVES, st.data())
def test_damage_is_judged_as_the_native_reader_judges_it(find: Find, data: bytes, draw: st.DataObject) -> None:
    spoilt = bytearray(data)
    place = draw.draw(st.integers(0, len(data) - 1))
    spoilt[place] = draw.draw(st.integers(0, 255))
    if draw.draw(st.booleans()):
        block = slice(place // 512 * 512, place // 512 * 512 + 512)
        header = spoilt[block]
        reseal(header)
        spoilt[block] = header
    spoilt = spoilt[: draw.draw(st.integers(0, len(data)))] if draw.draw(st.booleans()) else spoilt
    try:
        expected = native(bytes(spoilt))
    except FormatError:
        with pytest.raises(FormatError):
            find(bytes(spoilt))
    else:
        assert find(bytes(spoilt)) == expected


def changed(**fields: bytes) -> bytes:
    """An archive of one member, whose header was changed."""
    places = {"name": 0, "size": 124, "kind": 156, "magic": 257, "prefix": 345}
    data = bytearray(make_tar([("a.txt", b"one")]))
    for name, content in fields.items():
        data[places[name] : places[name] + len(content)] = content
    header = data[:512]
    reseal(header)
    return bytes(header + data[512:])


def with_pax(content: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        extension = tarfile.TarInfo("attributes")
        extension.type, extension.size = kind, len(content)
        archive.addfile(extension, io.BytesIO(content))
        member = tarfile.TarInfo("a.txt")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"one"))
    return file.getvalue()


def test_numbers_and_names_of_old_and_large_archives(find: Find) -> None:
    assert find(changed(size=b"\x80" + bytes(10) + b"\x03")) == [("a.txt", b"one")]
    assert find(changed(size=b" 3 ", magic=bytes(8))) == [("a.txt", b"one")]
    assert find(changed(prefix=b"folder", magic=b"ustar\0" + b"00")) == [("folder/a.txt", b"one")]
    assert find(changed(prefix=b"folder")) == [("a.txt", b"one")]
    assert find(changed(name=b"folder/", kind=b"\0", size=bytes(12))[:512] + bytes(1024)) == []
    # Attributes of all members that follow, and of one.
    assert find(with_pax(b"14 path=all.x\n", tarfile.XGLTYPE)) == [("all.x", b"one")]
    assert find(with_pax(b"14 path=one.x\n9 size=2\n")) == [("one.x", b"on")]


def refusals() -> Iterator[tuple[str, bytes, str]]:
    whole = make_tar([("a.txt", b"one"), ("b.txt", bytes(2000))])
    yield "sparse", changed(kind=b"S"), 'holds the sparse file "a.txt", which cannot be read: write it with'
    yield (
        "sparse by pax",
        with_pax(b"22 GNU.sparse.major=1\n30 GNU.sparse.name=folder/b.x\n"),
        'sparse file "folder/b.x"',
    )
    yield "volumes", changed(kind=b"M"), 'the rest of the file "a.txt" from another volume'
    yield "negative", changed(size=b"\xff" * 12), "gives a negative size, in the header at byte 0"
    yield "huge", changed(size=b"\x80\xff\xff\xff" + bytes(8)), "gives a size that no memory could hold"
    yield "no number", changed(size=b"8"), 'that is not an octal number: "8'
    yield (
        "checksum",
        b"x" + whole[1:],
        "is not a tar, or is compressed .*: its checksum is wrong, in the header at byte 0",
    )
    yield (
        "later checksum",
        whole[:1024] + b"x" + whole[1025:],
        "is damaged: its checksum is wrong, in the header at byte 1024",
    )
    yield (
        "after its end",
        whole[:1024] + bytes(512) + whole[1024:],
        "has a header after a block of zeros.* at byte 1536",
    )
    yield "empty", b"", "ends at byte 0, in front of its first header"
    yield "in a header", whole[:1100], "ends at byte 1100, without the blocks of zeros that should end it$"
    yield "in a member", whole[:3000], 'ends after 1464 of the 2000 bytes of "b.txt" that begin at byte 1536'
    yield "no end", whole[:3584], "if no member is missing, append 1024 zero bytes"
    yield "attribute", with_pax(b"99 path=x\n"), 'has a damaged attribute "99 path=x'
    yield "size in attributes", with_pax(b"10 size=x\n"), 'gives a size that is not a whole number.*: "x"'
    yield "long attributes", changed(kind=b"x", size=b"77777777777"), "of 8589934591 bytes, more than the 1048576"
    yield "cut attributes", changed(kind=b"x", size=b"00000003000")[:900], "ends after 388 of the 1536 bytes"
    for name, compress in COMPRESSIONS.items():
        yield name, compress(whole), "is compressed, so no member can be found"


@pytest.mark.parametrize(("data", "message"), [pytest.param(*case[1:], id=case[0]) for case in refusals()])
def test_refusals_say_what_and_where(find: Find, data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        find(data)
