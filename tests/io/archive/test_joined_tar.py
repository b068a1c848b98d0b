"""Archives that go on after their end: joined by `cat`, say. Most programs read only the first, and say nothing."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar

from spdl.io import FormatError, TarFile, iter_tarfile, tar_index
from spdl.source import TarShards
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def packed(*names: str) -> bytes:
    return make_tar([(name, b"abc") for name in names])


JOINED = packed("a.txt", "b.txt") + packed("c.txt")


class Piped:
    def __init__(self, data: bytes) -> None:
        self.read = io.BytesIO(data).read


READERS: dict[str, Callable[[bytes, Path], Any]] = {
    "bytes": lambda data, _: list(iter_tarfile(data)),
    "path": lambda _, path: list(iter_tarfile(path)),
    "gzip": lambda data, _: list(iter_tarfile(gzip.compress(data))),
    "two gzips": lambda data, _: list(iter_tarfile(gzip.compress(data[:10240]) + gzip.compress(data[10240:]))),
    "gzip stream": lambda data, _: list(iter_tarfile(Piped(gzip.compress(data)))),
    "tar_index": lambda _, path: tar_index(path),
    "TarFile": lambda _, path: TarFile(path),
    "TarShards": lambda _, path: TarShards(path, cache=None),
    "store": lambda _, path: TarShards(path.name, store=LocalStore(path.parent), cache=None),
    "URL": lambda _, path: list(iter_tarfile(path.as_uri())),
}


@pytest.mark.parametrize("name", READERS)
def test_tar_archives_that_were_joined_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "joined.tar"
    path.write_bytes(JOINED)
    with pytest.raises(FormatError, match=r"goes on at byte 10240, after its end: .* `tar --concatenate`"):
        READERS[name](JOINED, path)
    # Zeros after the end are usual.
    path.write_bytes(longer := packed("a.txt", "b.txt") + bytes(100_000))
    READERS[name](longer, path)


def test_a_stream_is_read_up_to_the_end_of_its_archive() -> None:
    stream = io.BytesIO(JOINED)
    assert [name for name, _ in iter_tarfile(Piped(JOINED))] == ["a.txt", "b.txt"]
    assert [name for name, _ in iter_tarfile(stream)] == ["a.txt", "b.txt"]
    assert stream.tell() == 3072
