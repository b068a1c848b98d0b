"""Files that the libraries themselves have written; `library_files` says how."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.tokens.library_files import DATA, DOCUMENTS

from spdl.io import FormatError
from spdl.source import TokenFiles

with contextlib.suppress(ImportError):
    import pyarrow.parquet  # noqa: F401 - has threads that live as long as the process.

if TYPE_CHECKING:
    from pathlib import Path

TYPES = ("uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16")
EXPECTED: dict[str, tuple[str, dict[str, Any]]] = {
    "megatron/sentences.bin": ("int32", {}),
    "megatron/sentences.idx": ("int32", {}),
    "dolma/part-uint16.npy": ("uint16", {"dtype": "uint16"}),
    "dolma/part-uint32.npy": ("uint32", {"dtype": "uint32"}),
    "datatrove/16.ds": ("uint16", {}),
    "datatrove/32.ds": ("uint32", {}),
    "litdata/tensors": ("int32", {}),
    "litdata/arrays": ("uint16", {}),
    "streaming/ndarray-uint16": ("uint16", {}),
    "streaming/ndarray": ("int32", {}),
    "streaming/bytes": ("int64", {"dtype": "int64"}),
    "datasets/saved/data-00000-of-00001.arrow": ("int32", {}),
    "datasets/a.parquet": ("int32", {}),
}
EXPECTED |= {f"megatron/{dtype}.bin": (dtype, {}) for dtype in TYPES}


@pytest.mark.parametrize("name", EXPECTED)
def test_token_files_read_what_each_library_has_written(name: str, tmp_path: Path) -> None:
    dtype, options = EXPECTED[name]
    if name.startswith("datasets"):
        pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    files = TokenFiles(DATA / name, cache=tmp_path, **options)
    assert files.dtype == dtype
    assert [each.tolist() for each in files] == [each.astype(dtype).tolist() for each in DOCUMENTS]
    assert {each.dtype for each in files} == {np.dtype(dtype)}
    assert files.lengths.tolist() == [len(each) for each in DOCUMENTS]


def test_token_files_read_indexed_datasets_that_megatron_has_merged() -> None:
    files = TokenFiles(DATA / "megatron" / "merged.bin")
    assert [each.tolist() for each in files] == [each.tolist() for each in DOCUMENTS * 2]


def test_token_files_refuse_what_megatron_writes_with_modes() -> None:
    with pytest.raises(FormatError, match=r"multimodal\.idx is multimodal: it has the mode of each sequence"):
        TokenFiles(DATA / "megatron" / "multimodal.bin")


def test_token_files_read_the_bounds_that_olmo_core_finds_by_the_end_token(tmp_path: Path) -> None:
    expected = [[*each.tolist(), 50279] for each in DOCUMENTS]
    listed = TokenFiles(DATA / "olmo_core" / "a.npy", dtype="uint16", cache=tmp_path)
    assert [each.tolist() for each in listed] == expected
    (tmp_path / "a.npy").write_bytes((DATA / "olmo_core" / "a.npy").read_bytes())
    found = TokenFiles(tmp_path / "a.npy", dtype="uint16", end_token=50279, cache=tmp_path)
    assert [each.tolist() for each in found] == expected


def test_token_files_read_files_of_all_libraries_together(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    names = [name for name in EXPECTED if name != "streaming/bytes" and not name.endswith(("uint32.npy", "8.bin"))]
    files = TokenFiles([DATA / name for name in names], dtype="uint16", cache=tmp_path)
    assert len(files) == len(names) * len(DOCUMENTS)
    numbers = np.random.default_rng(0).permutation(len(files))
    found = files.read(numbers)
    exact = {"int16": np.int16}
    for number, ids in zip(numbers.tolist(), found, strict=True):
        name, document = names[number // len(DOCUMENTS)], DOCUMENTS[number % len(DOCUMENTS)]
        kind = exact.get(EXPECTED[name][0])
        assert ids.tolist() == (document if kind is None else document.astype(kind)).tolist()
