"""What tests keep between runs is there when it is whole, and is made anew if what decides its content changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.io.av.ffmpeg import run_ffmpeg
from tests.io.kept import digest, kept, kept_bytes
from tests.io.pairs import pairs

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_made_once_and_seen_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "clip.txt"
    made: list[Path] = []

    def make(making: Path) -> None:
        made.append(making)
        making.write_text("half")
        assert not path.exists()
        making.write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: kept(path, make).read_text(), range(8)))
    assert found == ["whole"] * 8
    assert [it.name for it in made] == ["clip.txt"]


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    def fail(making: Path) -> None:
        making.write_text("half")
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept(tmp_path / "clip.txt", fail)
    assert not (tmp_path / "clip.txt").exists()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    with pytest.raises(ZeroDivisionError):
        kept_bytes(tmp_path / "bytes", lambda: b"%d" % (1 // 0))
    assert not (tmp_path / "bytes").exists()


def test_a_digest_is_of_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"ab")
    other.write_bytes(b"ab")
    assert digest("x", one) == digest("x", other) == digest("x", b"ab")
    other.write_bytes(b"abc")
    assert digest("x", one) != digest("x", other)
    assert digest("ab", "c") != digest("a", "bc")


def test_commands_of_other_files_are_told_apart(tmp_path: Path) -> None:
    found = set()
    for count in (1, 2, 1):
        raw, frame = tmp_path / "raw", tmp_path / "frame.txt"
        raw.write_bytes(bytes([count]) * 12)
        source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "2x2", "-i", raw)
        run_ffmpeg(*source, "-f", "framemd5", frame)
        found.add(frame.read_text())
        assert run_ffmpeg(*source, "-f", "rawvideo", "pipe:1") == bytes([count]) * 12
    assert len(found) == 2


def test_pairs_are_all_there_and_rows_are_few() -> None:
    options = [range(5), "abcd", [None, True], "xyz"]
    rows = pairs(*options)
    assert rows == pairs(*options)
    for one in range(4):
        for other in range(one + 1, 4):
            assert {(row[one], row[other]) for row in rows} == {(a, b) for a in options[one] for b in options[other]}
    assert 20 <= len(rows) <= 26
