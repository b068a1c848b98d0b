"""A forked process waits for nothing that a thread of its parent was about to do."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import signal
import tarfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from spdl.source import JsonLines, ParquetFiles, TarShards, TokenFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Halting:
    """A folder whose calls halt when it is told so, in the process that made the store."""

    def __init__(self, root: Path) -> None:
        self.inner = LocalStore(root)
        self.process = os.getpid()
        self.halts = False
        self.halted, self.may_go_on = threading.Event(), threading.Event()
        STORES[id(self)] = self

    def __repr__(self) -> str:
        return repr(self.inner)

    def __reduce__(self) -> Any:
        return _same_store, (id(self),)

    def _before(self) -> None:
        if self.halts and os.getpid() == self.process:
            self.halted.set()
            assert self.may_go_on.wait(60)

    def size(self, path: str) -> int:
        self._before()
        return self.inner.size(path)

    def list(self, prefix: str) -> Any:
        self._before()
        return self.inner.list(prefix)

    def get(self, path: str) -> Any:
        self._before()
        return self.inner.get(path)

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> Any:
        self._before()
        return self.inner.get_ranges(path, starts, lengths)


STORES: dict[int, Halting] = {}


def _same_store(number: int) -> Halting:
    return STORES[number]


def write(root: Path) -> None:
    (root / "a.ds").write_bytes(b"\1\0" * 2)
    (root / "a.ds.index").write_bytes(bytes([1, *bytes(7), 2, *bytes(7)]))
    (root / "a.jsonl").write_text('{"n": 0}\n{"n": 1}\n')
    with tarfile.open(root / "a.tar", "w") as archive:
        for name in ("0.txt", "1.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))


KINDS: dict[str, Callable[[Halting, Path], Any]] = {
    "tar": lambda store, cache: TarShards("a.tar", store=store, cache=cache),
    "lines": lambda store, cache: JsonLines("a.jsonl", store=store, cache=cache),
    "tokens": lambda store, _: TokenFiles("a.ds", store=store),
    "parquet": lambda store, _: ParquetFiles("a.parquet", store=store, prefetch_bytes=0),
}


# What halts is the opening of the file in a copy, or of Parquet the reading of a row group: others wait for it.
@pytest.mark.parametrize("kind", KINDS)
def test_others_wait_for_what_a_thread_reads_but_no_forked_process_and_no_copy(tmp_path: Path, kind: str) -> None:
    (tmp_path / "root").mkdir()
    write(tmp_path / "root")
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
        parquet.write_table(arrow.table({"n": [0, 1]}), tmp_path / "root" / "a.parquet")
    store = Halting(tmp_path / "root")
    records = pickle.loads(pickle.dumps(KINDS[kind](store, tmp_path / "cache")))  # noqa: S301 - its own.
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    store.halts = True
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(records[1])) for _ in range(2)]
    threads[0].start()
    assert store.halted.wait(60)
    store.halts = False  # Whoever else reads does not halt.
    threads[1].start()
    try:
        child = os.fork()
        if not child:
            signal.alarm(50)
            os._exit(0 if len(records) == 2 and records[0] and records[1] else 1)
        assert os.waitpid(child, 0)[1] == 0
        copy = pickle.loads(pickle.dumps(records))  # noqa: S301 - its own.
        assert copy[0]
        assert not found, "the other thread waits"
    finally:
        store.may_go_on.set()
        for thread in threads:
            thread.join()
    assert found == [records[1]] * 2
