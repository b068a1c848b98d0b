"""Files and objects are named by paths, by URLs, or by paths in a store."""

from __future__ import annotations

import gc
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar
from tests.pipeline.support import wait_until
from tests.store.http.scripted_server import say_part, serving

from spdl.source import Files, JsonLines, ParquetFiles, StreamedJsonLines, TarShards
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_url_names_its_store(tmp_path: Path) -> None:
    heads: tuple[list[str], list[str]] = ([], [])

    def answer(_: str, wanted: str) -> tuple[bytes, bool]:
        return say_part(b'{"a": 1}\n', wanted), True

    with serving(answer, heads=heads[0]) as (one, _), serving(answer, heads=heads[1]) as (other, _):
        records = JsonLines([f"{one}/x/{{1..2}}.jsonl", f"{other}/1.jsonl"], cache=tmp_path)
        assert list(records) == [{"a": 1}] * 3
        # One store, and so one thread, for all of a server.
        assert sum(thread.name == "spdl-store" for thread in threading.enumerate()) == 2
        del records
        gc.collect()
        assert wait_until(lambda: all(thread.name != "spdl-store" for thread in threading.enumerate()), 60)
    assert {head.split(" ")[1] for head in heads[0]} == {"/x/1.jsonl", "/x/2.jsonl"}
    assert {head.split(" ")[1] for head in heads[1]} == {"/1.jsonl"}


def test_files_by_their_urls(tmp_path: Path) -> None:
    (tmp_path / "a b.tar").write_bytes(make_tar([("1.txt", b"one"), ("2.txt", b"two")]))
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    url = tmp_path.as_uri()
    assert bytes(TarShards(f"{url}/a%20b.tar")[1]["txt"]) == b"two"
    assert list(JsonLines(f"{url}/a.jsonl", cache=tmp_path / "cache")) == [{"a": 1}]
    assert [record.path for record in Files(url, extensions=".jsonl")] == ["a.jsonl"]


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ImportError, match="obstore"):
        TarShards("s3://bucket/train-{0..9}.tar")


@pytest.mark.parametrize(
    ("read", "usual"),
    [(TarShards, "*.tar"), (ParquetFiles, "*.parquet"), (JsonLines, "*.jsonl"), (StreamedJsonLines, "*.jsonl")],
)
def test_a_folder_is_refused_with_what_to_pass(read: Callable[[Path], Any], usual: str, tmp_path: Path) -> None:
    remedy = f"files and not a folder, got '{tmp_path}'.*pass sorted(pathlib.Path('{tmp_path}').glob('{usual}'))"
    with pytest.raises(IsADirectoryError, match=re.escape(remedy).replace(r"\.\*", ".*")):
        read(tmp_path)


def test_a_pattern_of_a_shell_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    pattern = str(tmp_path / "train-*.tar")
    (tmp_path / "train-1.tar").write_bytes(make_tar([("1.txt", b"one")]))
    with pytest.raises(ValueError, match=r"`shards` must be .*sorted\(glob\.glob\('.*train-\*\.tar'\)\)"):
        TarShards(pattern)
    # A file may have that name, and so may an object.
    (tmp_path / "train-*.tar").write_bytes(make_tar([("1.txt", b"two")]))
    assert bytes(TarShards(pattern)[0]["txt"]) == b"two"
    assert bytes(TarShards("train-*.tar", store=LocalStore(tmp_path), cache=tmp_path / "c")[0]["txt"]) == b"two"


def test_a_folder_of_archives_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"no(t a)? folder.*glob\('\*\.tar'\)"):
        TarShards(tmp_path)


@pytest.mark.parametrize("stored", [False, True])
def test_of_a_pattern_it_is_said_how_many_are_missing(
    tmp_path: Path,
    stored: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in (0, 1, 3):
        (tmp_path / f"train-{number}.tar").write_bytes(make_tar([("1.txt", b"one")]))
    (tmp_path / "other.tar").write_bytes(make_tar([("1.txt", b"one")]))
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"store": LocalStore(tmp_path), "cache": tmp_path / "cache"} if stored else {}
    where = f" in LocalStore({str(tmp_path)!r})" if stored else f" below {tmp_path}"
    cases: list[tuple[Any, str, str]] = [
        ("train-{0..4}.tar", "5 archives of 'train-{0..4}.tar', 3", "train-2.tar"),
        (["other.tar", "train-{1..2}.tar"], "2 archives of 'train-{1..2}.tar', 1", "train-2.tar"),
        (["other.tar", "train-2.tar", "train-3.tar"], "3 archives, 2", "train-2.tar"),
        ("valid-{0..9}.tar", "10 archives of 'valid-{0..9}.tar', none", "valid-0.tar"),
    ]
    for shards, counted, first in cases:
        with pytest.raises(FileNotFoundError) as raised:
            TarShards(shards, **options)
        said = f"[Errno 2] Of the {counted} can be found{where}. The first that is missing: '{first}'"
        assert (str(raised.value), raised.value.filename) == (said, first)
    for single in ("train-2.tar", ["train-{2..2}.tar"]):
        with pytest.raises(FileNotFoundError, match=r"No such .*train-2\.tar"):
            TarShards(single, **options)
    with pytest.raises(FileNotFoundError, match=r"Of the 2 files of 'a-\{0,1\}\.jsonl', none can be found"):
        JsonLines("a-{0,1}.jsonl", **options)
    # The archives are there.
    with pytest.raises(FileNotFoundError, match=r"No such .*0\.idx"):
        TarShards("train-{0..1}.tar", index="train-{0..1}.idx", **options)
