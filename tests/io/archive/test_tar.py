"""Tar archives, against tarfile."""

from __future__ import annotations

import gc
import io
import mmap
import os
import socket
import struct
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from tests.io.tars import COMPRESSIONS, CONTENTS, FORMATS, NAMES, OTHER_TYPES, make_tar, read_tar, reseal

from spdl.io import FormatError, iter_tarfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMBERS = [("a.txt", b"one"), ("folder/b.bin", bytes(range(256)) * 5), ("empty", b"")]
TAR = make_tar(MEMBERS)


def contents(src: Any) -> list[tuple[str, bytes]]:
    return [(name, bytes(content)) for name, content in iter_tarfile(src)]


class Dribble:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._most))


@given(
    st.lists(st.tuples(NAMES, CONTENTS), max_size=6),
    st.sampled_from(sorted(FORMATS)),
    st.lists(st.sampled_from(OTHER_TYPES), max_size=4).map(b"".join),
)
def test_reads_what_tarfile_writes(members: list[tuple[str, bytes]], format: str, others: bytes) -> None:  # noqa: A002
    try:
        data = make_tar(members, format, others)
    except ValueError:  # A name is too long for ustar.
        reject()
    theirs = read_tar(data)
    assert contents(data) == theirs == members
    assert contents(io.BytesIO(data)) == theirs
    assert contents(Dribble(data, 300)) == theirs


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compressed_archives(compression: str, tmp_path: Path) -> None:
    members = [(f"{index}.bin", os.urandom(index * 997)) for index in range(40)]
    data = COMPRESSIONS[compression](make_tar(members))
    path = tmp_path / "archive.tar.z"
    path.write_bytes(data)
    for content in data, bytearray(data), memoryview(data), path, io.BytesIO(data), Dribble(data, 100):
        assert contents(content) == members


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compressed_archives_that_are_cut_short(compression: str) -> None:
    data = COMPRESSIONS[compression](make_tar([("a", os.urandom(3000))]))
    for size in range(8, len(data)):
        with pytest.raises(FormatError, match="truncated"):
            contents(data[:size])


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compressed_archives_that_are_damaged(compression: str) -> None:
    members = [("a", os.urandom(3000))]
    data = COMPRESSIONS[compression](make_tar(members))
    for place in range(0, len(data), 13):
        spoilt = bytearray(data)
        spoilt[place] ^= 0x55
        try:
            found = contents(bytes(spoilt))
        except FormatError:
            continue
        # zstd frames have no checksum unless asked for one; some bytes, such as gzip's time, mean nothing.
        assert compression == "zstd" or found == members


def test_several_gzip_members_are_one_stream() -> None:
    pack = COMPRESSIONS["gzip"]
    assert contents(pack(TAR[:700]) + pack(TAR[700:])) == MEMBERS


def test_views_share_the_memory() -> None:
    content = bytearray(TAR)
    views = dict(iter_tarfile(content))
    view = views["a.txt"]
    assert isinstance(view, memoryview)
    view[:] = b"two"
    assert contents(content)[0] == ("a.txt", b"two")
    with pytest.raises(BufferError):
        content.clear()
    assert dict(iter_tarfile(TAR))["a.txt"].readonly  # type: ignore[union-attr]


def test_views_keep_their_input_alive() -> None:
    class Input(bytearray):
        pass

    content = Input(TAR)
    gone = weakref.ref(content)
    views = list(iter_tarfile(content))
    del content
    gc.collect()
    assert gone() is not None
    assert bytes(views[0][1]) == b"one"
    del views
    assert gone() is None


@pytest.mark.parametrize(
    "kind",
    [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, "i1"), lambda data: memoryview(data).cast("c")],
)
def test_inputs_in_memory(kind: Callable[[bytes], Any]) -> None:
    assert contents(kind(TAR)) == MEMBERS
    assert all(isinstance(content, memoryview) and content.format == "B" for _, content in iter_tarfile(kind(TAR)))


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_are_mapped(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    path.write_bytes(TAR)
    views = list(iter_tarfile(kind(path)))
    path.unlink()
    assert [(name, bytes(view)) for name, view in views] == MEMBERS
    assert all(isinstance(view, memoryview) for _, view in views)


def test_mapped_files_are_read_from_their_beginning(tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    path.write_bytes(TAR)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.seek(5)
        assert contents(mapped) == MEMBERS


@contextmanager
def sending(target: IO[bytes], data: bytes) -> Iterator[None]:
    """Meanwhile, let a thread write the data, and close the target."""

    def run() -> None:
        with target:
            for place in range(0, len(data), 1000):
                target.write(data[place : place + 1000])

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("buffering", [-1, 0])
def test_pipes(buffering: int) -> None:
    source, target = os.pipe()
    with os.fdopen(source, "rb", buffering) as file, os.fdopen(target, "wb") as other, sending(other, TAR):
        assert contents(file) == MEMBERS
        file.read()


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_sockets(compression: str | None) -> None:
    data = COMPRESSIONS[compression](TAR) if compression else TAR
    takes: list[Callable[[socket.socket], Any]] = [lambda ours: ours, lambda ours: ours.makefile("rb")]
    for take in takes:
        ours, theirs = socket.socketpair()
        target = theirs.makefile("wb")
        # Only then does closing the file close the connection.
        theirs.close()
        with ours, sending(target, data), take(ours) as content:
            assert contents(content) == MEMBERS
            while ours.recv(4096):
                pass


def test_a_member_is_given_before_the_next_is_sent() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(TAR[:515])
        members = iter_tarfile(ours)
        assert next(members) == ("a.txt", b"one")
        theirs.sendall(TAR[515:])
        assert next(members)[0] == "folder/b.bin"


def test_no_byte_behind_the_end_is_read() -> None:
    end = len(TAR.rstrip(b"\0")) // 512 * 512 + 512
    exact = make_tar([("a", b"1")])[: 512 * 4]
    assert len(exact) < end + 10_000
    file = io.BytesIO(exact + b"what follows")
    assert contents(file) == [("a", b"1")]
    assert file.read() == b"what follows"


@pytest.mark.parametrize("make", [lambda data: data, io.BytesIO], ids=["memory", "stream"])
class TestDamage:
    """Blocks that tarfile and the reference take for the end, so that both would lose data in silence."""

    def test_nothing(self, make: Callable[[bytes], Any]) -> None:
        with pytest.raises(FormatError, match="truncated: it ends at byte 0, in front of its first header"):
            contents(make(b""))

    @pytest.mark.parametrize("data", [b"garbage" * 200, os.urandom(512 * 3), b"\xff" * 512])
    def test_garbage(self, make: Callable[[bytes], Any], data: bytes) -> None:
        with pytest.raises(FormatError, match=r"checksum|not an octal|negative|truncated"):
            contents(make(data))

    def test_every_cut(self, make: Callable[[bytes], Any]) -> None:
        # One block of zeros is enough of an end.
        end = 512 + 512 + 512 + 1536 + 512 + 512
        assert contents(make(TAR[:end])) == MEMBERS
        for size in range(0, end, 7):
            with pytest.raises(FormatError, match="truncated"):
                contents(make(TAR[:size]))
        with pytest.raises(
            FormatError, match=r'ends after 0 of the 1280 bytes of "folder/b\.bin" that begin at byte 1536'
        ):
            contents(make(TAR[:1536]))

    def test_what_is_sound_comes_first(self, make: Callable[[bytes], Any]) -> None:
        members = iter_tarfile(make(TAR[:1600]))
        assert next(members)[0] == "a.txt"
        with pytest.raises(FormatError, match="truncated"):
            next(members)
        with pytest.raises(StopIteration):
            next(members)

    def test_archives_in_a_row(self, make: Callable[[bytes], Any]) -> None:
        single = make_tar([("a", b"1")])[: 512 * 3]
        with pytest.raises(FormatError, match="has a header after a block of zeros"):
            contents(make(single + TAR))

    @pytest.mark.parametrize(
        ("place", "field", "message"),
        [
            (124, b"\xff" * 12, "a negative size"),
            (124, b"-0000000001\0", 'a size that is not an octal number: "-0000000001'),
            (124, b"00000000009\0", "not an octal number"),
            (124, b"77777777777\0", "truncated"),
            (124, b"\x80" + b"\xff" * 11, "a size that no memory could hold"),
            (124, b"\x80\0\0\0" + struct.pack(">Q", 1 << 62), "a size that no"),
            (124, b"\x80\0\0\0" + struct.pack(">Q", 1 << 50), "truncated"),
            (156, b"S", 'the sparse file "a.txt", which cannot be read'),
            (156, b"M", "from another volume"),
            (156, b"L", "ignored"),
        ],
    )
    def test_headers_that_lie(self, make: Callable[[bytes], Any], place: int, field: bytes, message: str) -> None:
        spoilt = bytearray(TAR[:1024] + bytes(1024))
        header = spoilt[:512]
        header[place : place + len(field)] = field
        reseal(header)
        spoilt[:512] = header
        if field == b"L":
            # A long name and no member: an end all the same.
            assert contents(make(bytes(spoilt))) == []
            return
        with pytest.raises(FormatError, match=message):
            contents(make(bytes(spoilt)))

    @pytest.mark.parametrize("attributes", [b"nonsense\n", b"99 path=a\n", b"9 path=a", b"8 patha\n", b"0 path=a\n"])
    def test_attributes_that_lie(self, make: Callable[[bytes], Any], attributes: bytes) -> None:
        with pytest.raises(FormatError, match="damaged attribute"):
            contents(make(with_attributes(attributes)))

    @pytest.mark.parametrize("size", [b"-1", b"99999999999999999999", b"1.5", b"x"])
    def test_sizes_in_attributes_that_lie(self, make: Callable[[bytes], Any], size: bytes) -> None:
        record = b" size=" + size + b"\n"
        with pytest.raises(FormatError, match="a size that is not a whole number, or that no memory could hold"):
            contents(make(with_attributes(b"%d" % (len(record) + 2) + record)))

    def test_sparse_files_of_pax(self, make: Callable[[bytes], Any]) -> None:
        with pytest.raises(FormatError, match=r'the sparse file "a\.txt"'):
            contents(make(with_attributes(b"22 GNU.sparse.major=1\n")))
        with pytest.raises(FormatError, match=r'the sparse file "big"'):
            contents(make(with_attributes(b"14 path=x/big\n23 GNU.sparse.name=big\n")))

    def test_a_long_name_takes_no_more_memory_than_names_need(self, make: Callable[[bytes], Any]) -> None:
        header = bytearray(TAR[:512])
        header[156:157] = b"L"
        header[124:136] = b"77777777777\0"
        reseal(header)
        with pytest.raises(FormatError, match="a name or attributes of 8589934591 bytes"):
            contents(make(bytes(header) + bytes(2048)))


def with_attributes(attributes: bytes) -> bytes:
    header = bytearray(TAR[:512])
    header[156:157] = b"x"
    header[124:136] = b"%011o\0" % len(attributes)
    reseal(header)
    return bytes(header) + attributes.ljust(512, b"\0") + TAR


def test_attributes_that_are_read() -> None:
    assert contents(with_attributes(b"13 path=\xc3\xa4/b\n")) == [("ä/b", b"one"), *MEMBERS[1:]]
    assert contents(with_attributes(b"10 size=2\n"))[0] == ("a.txt", b"on")


def test_names_that_are_not_utf_8() -> None:
    header = bytearray(TAR[:512])
    header[:3] = b"\xff\n\n"
    reseal(header)
    assert os.fsencode(contents(bytes(header) + TAR[512:])[0][0]) == b"\xff\n\nxt"


def test_signed_checksums_are_accepted() -> None:
    header = bytearray(TAR[:512])
    header[:1] = b"\xff"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % (sum(header) - 256)
    assert contents(bytes(header) + TAR[512:])[1:] == MEMBERS[1:]


@given(st.data())
def test_damage_is_an_error_or_what_tarfile_reads(data: st.DataObject) -> None:
    spoilt = bytearray(TAR)
    place = data.draw(st.integers(0, len(TAR) - 1))
    spoilt[place] = data.draw(st.integers(0, 255))
    try:
        ours = contents(spoilt)
    except FormatError:
        return
    assert ours == read_tar(bytes(spoilt))


def test_streams_that_are_none() -> None:
    with pytest.raises(TypeError, match="opened in binary mode"):
        contents(io.StringIO("text"))

    class Empty:
        def read(self, size: int) -> None:
            return None

    with pytest.raises(BlockingIOError, match="non-blocking"):
        contents(Empty())

    class Generous:
        def __init__(self) -> None:
            self.left = TAR

        def read(self, size: int) -> bytes:
            piece, self.left = self.left[:512], self.left[512:]
            return piece

    with pytest.raises(ValueError, match="more bytes than it was asked for"):
        contents(Generous())
    with pytest.raises(TypeError, match="`src` must be a path"):
        iter_tarfile(3)


def test_errors_of_the_stream_pass() -> None:
    class Broken(Dribble):
        def read(self, size: int) -> bytes:
            piece = super().read(size)
            if not piece:
                raise ConnectionResetError("gone")
            return piece

    with pytest.raises(ConnectionResetError, match="gone"):
        contents(Broken(TAR[:1600], 4096))
    with pytest.raises(ConnectionResetError, match="gone"):
        contents(Broken(COMPRESSIONS["gzip"](TAR)[:-8], 4096))


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
@pytest.mark.parametrize("error", [OSError("lost"), EOFError("lost"), ValueError("lost"), ConnectionError("lost")])
def test_errors_of_a_compressed_stream_are_no_damage(compression: str, error: Exception) -> None:
    data = COMPRESSIONS[compression](make_tar([("a", os.urandom(200_000))]))

    class Broken(Dribble):
        def read(self, size: int) -> bytes:
            if self._file.tell() > 150_000:
                raise error
            return super().read(size)

    with pytest.raises(type(error), match="lost") as raised:
        contents(Broken(data, 4096))
    assert raised.value is error


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compressed_streams_that_are_none(compression: str) -> None:
    data = COMPRESSIONS[compression](make_tar([("a", os.urandom(200_000))]))

    class Odd(Dribble):
        """Gives something else in the end."""

        def __init__(self, last: Any) -> None:
            super().__init__(data, 4096)
            self._last = last

        def read(self, size: int) -> Any:
            return self._last if self._file.tell() > 150_000 else super().read(size)

    with pytest.raises(BlockingIOError, match="non-blocking"):
        contents(Odd(None))
    with pytest.raises(TypeError, match=r"opened in binary mode, got .*Odd object.*\. Its read\(\) returned str"):
        contents(Odd("text"))
    with pytest.raises(ValueError, match="more bytes than it was asked for"):
        contents(Odd(bytes(1 << 20)))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
@pytest.mark.parametrize("compression", [None, *sorted(COMPRESSIONS)])
def test_streams_of_other_bytes(compression: str | None, kind: Callable[[bytes], Any]) -> None:
    class Other(Dribble):
        def read(self, size: int) -> Any:
            return kind(super().read(size))

    assert contents(Other(COMPRESSIONS[compression](TAR) if compression else TAR, 700)) == MEMBERS


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_errors_name_the_file(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "bad.tar"
    path.write_bytes(COMPRESSIONS[compression](TAR[:1100]) if compression else TAR[:1100])
    members = iter_tarfile(path)
    assert next(members)[0] == "a.txt"
    with pytest.raises(FormatError, match=r"^'.*/bad\.tar': the tar archive is truncated"):
        next(members)


@pytest.mark.parametrize("kind", ["memory", "path"])
def test_threads_share_an_iterator(kind: str, tmp_path: Path) -> None:
    members = [(str(number), b"") for number in range(20_000)]
    data = make_tar(members)
    path = tmp_path / "archive.tar"
    path.write_bytes(data)
    shared = iter_tarfile(data if kind == "memory" else path)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.extend(name for name, _ in shared)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(name for name, _ in members)


def test_a_large_member_of_a_stream() -> None:
    content = os.urandom((1 << 24) + 12_345)
    assert contents(io.BytesIO(make_tar([("large", content)]))) == [("large", content)]


def test_an_iterator_that_its_stream_holds_is_collected() -> None:
    class Input(io.BytesIO):
        members: Any

    content = Input(TAR)
    content.members = iter_tarfile(content)
    next(content.members)
    gone = weakref.ref(content)
    del content
    gc.collect()
    assert gone() is None
