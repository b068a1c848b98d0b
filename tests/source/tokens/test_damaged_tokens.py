"""Damaged token files: an error that is documented, or documents that the index and the tokens both have."""

from __future__ import annotations

import gzip
import json
import random
import struct
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.records.damage import change_value, damaged
from tests.source.tokens.token_formats import FORMATS, Documents, joined, write_megatron

from spdl.io import FormatError
from spdl.source import TokenFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = 25
INDEXES = {"megatron": ".idx", "datatrove": ".ds.index", "dolma": ".csv.gz"}
HEAD = struct.Struct("<9sQBQQ")


def documents() -> Documents:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 1 << 16, length).astype(np.uint16) for length in (5, 1, 0, 30, 3, 3, 12)]


def read(make: Callable[[], TokenFiles]) -> list[list[int]] | None:
    """Return all documents, read in every way; None if that is an error."""
    try:
        files = make()
        found = [ids.tolist() for ids in files]
        assert [ids.tolist() for ids in files.read(range(len(files)))] == found
        assert files.lengths.tolist() == list(map(len, found))
    except (FormatError, OSError, ValueError):
        return None
    return found


def opener(rng: random.Random, folder: Path, path: Path) -> Callable[[], TokenFiles]:
    options: dict[str, Any] = {"dtype": "uint16", "cache": folder / "cache"}
    if rng.random() < 0.5:
        return lambda: TokenFiles(path.name, store=LocalStore(folder), **options)
    return lambda: TokenFiles(path, **options)


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_token_files_with_a_damaged_index_lose_and_double_no_token(tmp_path: Path, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    path = FORMATS[kind](tmp_path / "a", documents())
    index = tmp_path / f"a{INDEXES[kind]}"
    for _ in range(8):
        sound = index.read_bytes()
        index.write_bytes(damaged(rng, sound))
        found = read(opener(rng, tmp_path, path))
        # Other bounds may be just as right.
        assert found is None or list(chain.from_iterable(found)) == joined(documents(), "uint16").tolist()
        index.write_bytes(sound)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(SEEDS // 5))
def test_token_files_with_damaged_content_are_refused_or_have_their_bounds(
    tmp_path: Path, kind: str, seed: int
) -> None:
    rng = random.Random(seed)
    path = FORMATS[kind](tmp_path / "a", documents())
    lengths = [len(each) for each in documents()]
    files = [path] if path.is_file() else [each for each in path.iterdir() if each.name != "index.json"]
    for _ in range(8):
        file = rng.choice(files)
        sound = file.read_bytes()
        content = damaged(rng, sound)
        file.write_bytes(content)
        found = read(opener(rng, tmp_path, path))
        if found is not None and kind in ("megatron", "datatrove", "dolma"):
            assert list(map(len, found)) == lengths
        # Dolma's bounds need not go up to the end.
        if found is not None and kind in ("megatron", "datatrove", "litdata"):
            assert len(content) == len(sound), "another size of the tokens is noticed"
        file.write_bytes(sound)


@pytest.mark.parametrize("kind", ["litdata", "mds"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_token_files_with_a_damaged_list_of_shards_have_documents_that_were_written(
    tmp_path: Path, kind: str, seed: int
) -> None:
    rng = random.Random(seed)
    path = FORMATS[kind](tmp_path / "a", documents())
    index = path / "index.json"
    index.write_bytes(change_value(rng, index.read_bytes()))
    found = read(opener(rng, tmp_path, path))
    tokens = joined(documents(), "uint16")
    known = {each.tobytes() for each in documents()} | {tokens.tobytes()}
    if found is not None and kind == "litdata":
        assert all(np.array(ids, "<i8").astype("<u2").tobytes() in known for ids in found)


def write_idx(path: Path, *, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.with_suffix(".idx").read_bytes())
    change(content)
    path.with_suffix(".idx").write_bytes(content)


def place(content: bytearray, offset: int, kind: str, value: int) -> None:
    struct.pack_into(kind, content, offset, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: place(c, 0, "<B", 0), r"a\.idx is not an index of Megatron or NeMo: it begins with b'\\x00MIDIDX"),
        (lambda c: place(c, 9, "<Q", 2), "has version 2, and version 1 is read"),
        (lambda c: place(c, 17, "<B", 9), r"its tokens have the type 9, and 1 \(uint8\), .*, 8 \(uint16\) are known"),
        (lambda c: place(c, 18, "<Q", 2**62), "says it has 4611686018427387904 sequences and 4 bounds of documents"),
        (lambda c: place(c, 26, "<Q", 0), "says it has 3 sequences and 0 bounds"),
        (lambda c: c.__delitem__(slice(-1, None)), "which take 102 bytes, and it has 101"),
        (lambda c: c.__delitem__(slice(20, None)), "is cut off: it has 20 bytes, and its head has 34"),
        (lambda c: c.extend(bytes(3)), "is multimodal: it has the mode of each sequence, `sequence_modes`"),
        (lambda c: place(c, 38, "<i", -3), "sequence 1 has -3 tokens"),
        (lambda c: place(c, 38, "<i", 5), "sequence 2 begins at byte 10, and the one before it ends at byte 14"),
        (lambda c: place(c, 42, "<i", 9), r"its sequences end at byte 28 or later, and the \.bin file has 20"),
        (lambda c: place(c, 54, "<q", -2), "sequence 1 begins at byte -2, and the one before it ends at byte 4"),
        (lambda c: place(c, 54, "<q", 2**62), "sequence 1 begins at byte 4611686018427387904"),
        (lambda c: place(c, 46, "<q", 2), "sequence 0 begins at byte 2, and the one before it ends at byte 0"),
        (lambda c: place(c, 78, "<q", 3), "document 1 does not begin at the sequence that follows"),
        (lambda c: place(c, 70, "<q", 1), "document 0 does not begin at the sequence that follows"),
        (lambda c: place(c, 94, "<q", 2), r"end at sequence 2 of 3: its writer has not called `end_document`"),
        (lambda c: place(c, 94, "<q", 4), "its documents end at sequence 4 of 3"),
    ],
)
def test_token_files_of_megatron_say_what_is_wrong(
    tmp_path: Path, change: Callable[[bytearray], object], message: str
) -> None:
    write_megatron(tmp_path / "a", [np.arange(n, dtype=np.uint16) for n in (2, 3, 5)])
    write_idx(tmp_path / "a", change=change)
    with pytest.raises(FormatError, match=message) as caught:
        TokenFiles(tmp_path / "a.bin")
    assert str(tmp_path / "a.idx") in str(caught.value)
    assert caught.value.path == str(tmp_path / "a.idx")


def test_token_files_of_megatron_with_modes_are_refused_by_name(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [np.arange(4)], modes=True)
    with pytest.raises(FormatError, match=r"is multimodal.*`sequence_modes`, and only text is read"):
        TokenFiles(tmp_path / "a.bin")


def test_token_files_of_megatron_need_all_of_the_bin_file(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [np.arange(4, dtype=np.uint16)])
    (tmp_path / "a.bin").write_bytes(bytes(6))
    with pytest.raises(FormatError, match=r"end at byte 8 or later, and the \.bin file has 6"):
        TokenFiles(tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ((20240520, 2, 4), "is a shard of llm.c of version 2, and version 1 is read"),
        ((20240801, 1, 4), "is a shard of llm.c of version 1, and version 7 is read"),
        ((20240520, 1, 5), "says it has 5 tokens, and has 4 of uint16"),
        ((20240520, 1, -1), "says it has -1 tokens"),
        ((20240801, 7, 4), "says it has 4 tokens, and has 2 of uint32"),
        ((20240522, 1, 4), "has questions of an evaluation of llm.c, not documents"),
    ],
)
def test_token_files_of_llm_c_say_what_is_wrong(tmp_path: Path, head: tuple[int, ...], message: str) -> None:
    (tmp_path / "a.bin").write_bytes(struct.pack("<3i", *head).ljust(1024, b"\0") + bytes(8))
    with pytest.raises(FormatError, match=message):
        TokenFiles(tmp_path / "a.bin", dtype="uint16")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (b"\0" * 7, "has 7 bytes, and each end of a document has 8"),
        (struct.pack("<2Q", 3, 5), r"has 8 bytes, and by a\.ds\.index it has 5 tokens of 2 or 4 bytes"),
        (struct.pack("<3Q", 3, 2, 4), "document 1 begins at token 3 and ends at token 2"),
        (struct.pack("<2Q", 2**63, 4), "is damaged, or belongs to another file: document 0 begins at token 0"),
        (b"", r"has 8 bytes, and by a\.ds\.index it has 0 tokens"),
    ],
)
def test_token_files_of_datatrove_say_what_is_wrong(tmp_path: Path, ends: bytes, message: str) -> None:
    (tmp_path / "a.ds").write_bytes(bytes(8))
    (tmp_path / "a.ds.index").write_bytes(ends)
    with pytest.raises(FormatError, match=message):
        TokenFiles(tmp_path / "a.ds")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"0,2\n1,3\n", "document 1 lies from token 1 to 3, and may lie from 2, where the one before ends, to 4"),
        (b"0,2\n2,5\n", "document 1 lies from token 2 to 5"),
        (b"2,0\n", "document 0 lies from token 2 to 0"),
        (b"-1,2\n", "document 0 lies from token -1 to 2"),
        (b"0,x\n", "row 0: it is not a table in gzip"),
        (b"0\n", "row 0: it is not a table in gzip"),
        (b"0,2\n\n", "row 1: it is not a table in gzip"),
        (b"0,99999999999999999999\n", "row 0: it is not a table in gzip"),
        (b"0,0\n" * 70_000, "lists more than 65541 documents of 4 tokens"),
        (b"0," + b"0" * (1 << 21), "a line has 1048576 characters or more"),
    ],
)
def test_token_files_of_dolma_need_rows_that_are_right(tmp_path: Path, table: bytes, message: str) -> None:
    np.arange(4, dtype=np.uint16).tofile(tmp_path / "a.npy")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(table))
    with pytest.raises(FormatError, match=message) as caught:
        TokenFiles(tmp_path / "a.npy", dtype="uint16", cache=tmp_path)
    assert str(tmp_path / "a.csv.gz") in str(caught.value)


def test_token_files_of_dolma_need_the_whole_table(tmp_path: Path) -> None:
    np.arange(4, dtype=np.uint16).tofile(tmp_path / "a.npy")
    content = gzip.compress(b"0,2\n2,4\n")
    for size in (0, 5, len(content) - 9, len(content) - 1):
        (tmp_path / "a.csv.gz").write_bytes(content[:size])
        with pytest.raises(FormatError, match="it is not a table in gzip"):
            TokenFiles(tmp_path / "a.npy", dtype="uint16", cache=tmp_path)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(2, 2)", r"is an array of the shape \(2, 2\) and the type uint16, and tokens are numbers in one dimension"),
        ("(5,)", "says it has 5 tokens, and has 4 of uint16"),
        ("(9", "has a damaged head of NumPy"),
        ("((),)", "has a damaged head of NumPy"),
        ("(True,)", "has a damaged head of NumPy"),
        ("(-4,)", "says it has -4 tokens"),
    ],
)
def test_token_files_of_numpy_say_what_is_wrong(tmp_path: Path, shape: str, message: str) -> None:
    head = f"{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(8)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        TokenFiles(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("item_loader", "PyTreeLoader", "for the loader 'PyTreeLoader'.*LitDataShards reads others"),
        ("data_format", ["jpeg"], r"have the format \['jpeg'\]: those for TokensLoader are token files"),
        ("data_format", ["no_header_tensor:99"], "tensors of the type 99 are not read"),
        ("compression", "zstd", "its chunks have the compression 'zstd', and tokens are read without any"),
        ("encryption", {"algorithm": "x"}, "its chunks have the encryption"),
    ],
)
def test_token_files_of_litdata_say_what_is_wrong(tmp_path: Path, part: str, value: Any, message: str) -> None:
    path = FORMATS["litdata"](tmp_path / "a", documents())
    index = json.loads((path / "index.json").read_text())
    index["config"][part] = value
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match=message):
        TokenFiles(path)


def test_token_files_of_litdata_are_those_of_their_index(tmp_path: Path) -> None:
    path = FORMATS["litdata"](tmp_path / "a", documents())
    index = json.loads((path / "index.json").read_text())
    for part, message in (("dim", "tokens, and its index says"), ("chunk_size", "which says it has|its index says it")):
        other = json.loads(json.dumps(index))
        other["chunks"][0][part] += 1
        (path / "index.json").write_text(json.dumps(other))
        with pytest.raises(FormatError, match=message):
            TokenFiles(path)
    index["chunks"][0]["filename"] = "../chunk-0-0.bin"
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match="may only name files below its folder"):
        TokenFiles(path)
