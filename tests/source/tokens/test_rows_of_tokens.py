"""Rows of token files are the rows of their documents, and no more is read than they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.counting_store import CountingStore
from tests.source.tokens.token_formats import FORMATS, joined

from spdl.io import RowWriter
from spdl.source import PackedOrder, TokenFiles

if TYPE_CHECKING:
    from pathlib import Path


def assert_same_rows(files: TokenFiles, documents: list[Any], length: int, **options: Any) -> None:
    order = PackedOrder(files.lengths, length, seed=3, **options)
    for labels in ("shifted", "unshifted", None):
        write = RowWriter(length, labels=labels)
        for first in range(0, len(order), 4):
            rows = order.rows(range(first, min(first + 4, len(order))))
            found, expected = write(rows, files), write(rows, documents)
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("algorithm", ["concat", "best-fit"])
@pytest.mark.parametrize("stored", [False, True])
def test_token_files_of_all_formats_become_the_rows_of_their_documents(
    tmp_path: Path,
    algorithm: str,
    stored: bool,  # noqa: FBT001 - a parameter.
) -> None:
    rng = np.random.default_rng(1)
    paths, documents = [], []
    for number, kind in enumerate(FORMATS):
        drawn = [rng.integers(0, 1 << 16, length).astype(np.uint16) for length in rng.integers(0, 40, 9)]
        paths.append(FORMATS[kind](tmp_path / str(number), drawn))
        documents += drawn
    options: dict[str, Any] = {"dtype": "uint16", "cache": tmp_path}
    if stored:
        files = TokenFiles([path.name for path in paths], store=CountingStore(tmp_path), **options)
    else:
        files = TokenFiles(paths, **options)
    assert files.parts is None
    assert_same_rows(files, documents, 32, algorithm=algorithm)
    mapped = [path for path, kind in zip(paths, FORMATS, strict=True) if kind in ("megatron", "datatrove", "litdata")]
    files = TokenFiles(mapped, **options)
    assert files.parts is not None
    assert_same_rows(files, list(files), 32, algorithm=algorithm)


def test_token_files_that_are_one_document_are_read_row_by_row_from_a_store(tmp_path: Path) -> None:
    tokens = joined([np.arange(60_000)], "uint16")
    tokens.tofile(tmp_path / "a.bin")
    store = CountingStore(tmp_path)
    files = TokenFiles("a.bin", store=store, dtype="uint16")
    order = PackedOrder(files.lengths, 100, algorithm="concat", seed=1)
    store.requests.clear()
    batch = RowWriter(100)(order.rows([7]), files)
    assert store.bytes_read == 202, "a row, and the label of its last token"
    assert batch["labels"].tolist() == (batch["tokens"] + 1).tolist()
