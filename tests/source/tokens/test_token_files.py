"""Documents of token files are those that were written, whatever the formats and wherever the files are."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hammer import assert_agree, hammer
from tests.source.counting_store import CountingStore
from tests.source.tokens.token_formats import FORMATS, Documents, joined, write_arrow, write_megatron, write_parquet
from tests.store.http.scripted_server import say, say_part, serving

from spdl.dataloader import DataLoader, PyTorchDataLoader
from spdl.io import FormatError
from spdl.source import BlockShuffledOrder, EpochSampler, MappedRecords, Refill, ShuffledOrder, TokenFiles
from spdl.store import HTTPStore

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTHS = st.lists(st.integers(0, 9), max_size=9)


def draw(lengths: Sequence[int], seed: int = 0) -> Documents:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << 16, length).astype(np.uint16) for length in lengths]


def assert_same(found: Sequence[Any], documents: Documents) -> None:
    assert len(found) == len(documents)
    for got, expected in zip(found, documents, strict=True):
        assert got.ndim == 1
        assert got.tolist() == expected.tolist()
        assert not got.flags.writeable


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(FORMATS)), LENGTHS), min_size=1, max_size=5), st.booleans(), st.data())
def test_token_files_of_any_mix_are_the_documents_that_were_written(
    written: list[tuple[str, list[int]]],
    stored: bool,  # noqa: FBT001 - drawn.
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths, documents = [], []
        for number, (kind, lengths) in enumerate(written):
            drawn = draw(lengths, number)
            paths.append(FORMATS[kind](Path(folder, str(number)), drawn))
            documents += drawn
        options: dict[str, Any] = {"dtype": "uint16", "cache": folder}
        if not documents:
            with pytest.raises(ValueError, match="files with documents in them"):
                TokenFiles(paths, **options)
            return
        if stored:
            files = TokenFiles([path.name for path in paths], store=CountingStore(Path(folder)), **options)
        else:
            files = TokenFiles(paths, **options)
        assert len(files) == len(documents)
        assert files.lengths.tolist() == [len(each) for each in documents]
        assert files.lengths.dtype == np.int32
        assert not files.lengths.flags.writeable
        numbers = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=9))
        assert_same(files.read(numbers), [documents[number] for number in numbers])
        assert_same(list(files), documents)
        assert_same(files[1:], documents[1:])
        cuts = [sorted(data.draw(st.tuples(*[st.integers(0, len(documents[number]))] * 2))) for number in numbers]
        starts, stops = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
        assert_same(
            files.read(numbers, starts, stops),
            [documents[number][cut[0] : cut[1]] for number, cut in zip(numbers, cuts, strict=True)],
        )
        parts = files.parts
        flat = not stored and not {kind for kind, _ in written} & {"mds", "parquet", "arrow", "arrow stream"}
        assert (parts is not None) == flat
        if parts is not None:
            where, firsts = files.locate(numbers)
            many = files.locate(numbers * 200)
            assert [each.tolist() for each in many] == [where.tolist() * 200, firsts.tolist() * 200]
            places = zip(where.tolist(), firsts.tolist(), files.lengths[numbers].tolist(), strict=True)
            assert_same([parts[a][b : b + n] for a, b, n in places], [documents[number] for number in numbers])


@pytest.mark.parametrize("kind", FORMATS)
def test_token_files_are_pickled_as_paths_and_read_the_same_in_a_forked_process(tmp_path: Path, kind: str) -> None:
    documents = draw([3, 0, 70_000, 5, 4])
    path = FORMATS[kind](tmp_path / "a", documents)
    files = TokenFiles(path, dtype="uint16", cache=tmp_path)
    assert files.lengths.sum() == 70_012
    content = pickle.dumps(files)
    assert len(content) < 5000
    copy = pickle.loads(content)  # noqa: S301 - its own.
    assert_same(list(copy), documents)
    assert copy.dtype == files.dtype
    child = os.fork()
    if not child:
        os._exit(0 if [each.tolist() for each in files] == [each.tolist() for each in documents] else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_token_files_that_were_written_again_are_refused_by_copies(tmp_path: Path, kind: str) -> None:
    path = FORMATS[kind](tmp_path / "a", draw([3, 2, 5]))
    copy = pickle.loads(pickle.dumps(TokenFiles(path, dtype="uint16", cache=tmp_path)))  # noqa: S301 - its own.
    for file in [*path.iterdir()] if path.is_dir() else [path]:
        content = file.read_bytes()
        file.unlink()
        file.with_name("other").write_bytes(b"")  # So that the inode is another one.
        file.write_bytes(content)
        os.utime(file, ns=(0, 0))
    with pytest.raises(FormatError, match=r"was written again|has changed since"):
        copy.read([0])


def test_token_files_lend_views_of_mapped_files(tmp_path: Path) -> None:
    tokens = draw([100])[0]
    tokens.tofile(tmp_path / "a.bin")
    files = TokenFiles(tmp_path / "a.bin", dtype=np.uint16)
    whole, again = files[0], files.read([0], [10], [20])[0]
    assert np.shares_memory(whole, again)
    assert files.parts is not None
    assert np.shares_memory(files.parts[0], whole)
    # What is written into the file is seen.
    with (tmp_path / "a.bin").open("r+b") as file:
        file.seek(20)
        file.write(b"\x07\x00")
    assert again[0] == 7


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16", "float32", "float64"])
def test_token_files_of_megatron_have_every_type_of_the_format(tmp_path: Path, dtype: str) -> None:
    documents = [each.astype(dtype) for each in (np.arange(5), np.arange(0), np.arange(100, 127))]
    write_megatron(tmp_path / "a", documents, dtype)
    files = TokenFiles(tmp_path / "a.idx")
    assert files.dtype == dtype
    assert_same(list(files), documents)
    assert files[0].dtype == dtype


def test_token_files_of_megatron_join_the_sequences_of_a_document(tmp_path: Path) -> None:
    sequences = draw([3, 0, 2, 4, 1])
    write_megatron(tmp_path / "a", sequences, bounds=[0, 2, 2, 5])
    files = TokenFiles(tmp_path / "a.bin")
    assert_same(list(files), [joined(sequences[:2], "uint16"), joined([], "uint16"), joined(sequences[2:], "uint16")])
    assert files.lengths.tolist() == [3, 0, 7]
    assert files.locate([2, 0])[1].tolist() == [3, 0]


@pytest.mark.parametrize(("magic", "version", "dtype"), [(20240520, 1, "uint16"), (20240801, 7, "uint32")])
def test_token_files_of_llm_c_have_their_tokens_behind_a_head(
    tmp_path: Path, magic: int, version: int, dtype: str
) -> None:
    tokens = np.array([50256, 1, 2, 50256, 3], dtype)
    head = struct.pack("<3i", magic, version, len(tokens)).ljust(1024, b"\0")
    (tmp_path / "a.bin").write_bytes(head + tokens.tobytes())
    whole = TokenFiles(tmp_path / "a.bin")
    assert whole.dtype == dtype
    assert_same(list(whole), [tokens])
    # They have the token first.
    files = TokenFiles(tmp_path / "a.bin", start_token=50256, cache=tmp_path)
    assert_same(list(files), [tokens[:3], tokens[3:]])


def test_token_files_of_numpy_have_the_type_that_they_say(tmp_path: Path) -> None:
    for number, dtype in enumerate((np.uint32, np.int64, np.uint8)):
        np.save(tmp_path / f"{number}.npy", np.arange(5, dtype=dtype))
    files = TokenFiles(f"{tmp_path}/{{0..2}}.npy", dtype="uint16")
    assert [each.dtype for each in files] == [np.uint32, np.int64, np.uint8]
    assert files.dtype == np.int64
    assert_same(list(files), [np.arange(5)] * 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.booleans())
def test_token_files_without_bounds_are_one_document_or_end_at_a_token(
    tokens: list[int],
    first: bool,  # noqa: FBT001 - drawn.
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.bin")
        np.array(tokens, np.uint16).tofile(path)
        assert [each.tolist() for each in TokenFiles(path, dtype="uint16")] == [tokens]
        expected: list[list[int]] = [[]]
        for token in tokens:
            if first and token == 0:
                expected.append([])
            expected[-1].append(token)
            if not first and token == 0:
                expected.append([])
        option: dict[str, Any] = {"start_token": 0} if first else {"end_token": 0}
        for _ in range(2):  # Found, and kept.
            files = TokenFiles(path, dtype="uint16", cache=folder, **option)
            assert [each.tolist() for each in files] == [each for each in expected if each]


def test_token_files_leave_out_tokens_between_the_bounds_of_dolma_and_log_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    np.arange(9, dtype=np.uint16).tofile(tmp_path / "a.npy")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0,2\n3,3\n5,9\n"))
    files = TokenFiles(tmp_path / "a.npy", dtype="uint16", cache=tmp_path)
    assert [each.tolist() for each in files] == [[0, 1], [], [5, 6, 7, 8]]
    assert files.lengths.tolist() == [2, 0, 4]
    assert "a.csv.gz lists no document for 3 of the 9 tokens of" in caplog.text


def test_token_files_read_only_what_is_asked_for_from_a_store(tmp_path: Path) -> None:
    documents = draw([10, 70_000, 10])
    write_megatron(tmp_path / "a", documents)
    store = CountingStore(tmp_path)
    files = TokenFiles("a.bin", store=store)
    store.requests.clear()
    assert_same(files.read([2, 0]), [documents[2], documents[0]])
    assert_same(files.read([1], [5], [15]), [documents[1][5:15]])
    assert store.bytes_read == 60
    assert len(store.requests) == 2


def test_token_files_come_from_a_web_server_in_ranges(tmp_path: Path) -> None:
    documents = draw([10, 7000, 10])
    write_megatron(tmp_path / "a", documents)
    joined(documents, "uint16").tofile(tmp_path / "b.bin")
    heads: list[str] = []

    def answer(_: str, wanted: str) -> tuple[bytes, bool]:
        file = tmp_path / heads[-1].split(" ")[1].lstrip("/")
        if not file.exists():
            return say("404 Not Found", Content_Length="0"), True
        return say_part(file.read_bytes(), wanted), True

    with serving(answer, heads=heads) as (url, asked):
        store = HTTPStore(url)
        files = TokenFiles(["a.bin", "b.bin"], store=store, dtype="uint16")
        asked.clear()
        assert_same(files.read([2, 0]), [documents[2], documents[0]])
        assert_same(files.read([3], [7000], [7003]), [joined(documents, "uint16")[7000:7003]])
        assert "GET 14000-14005" in asked
        store.close()


@pytest.mark.parametrize("kind", FORMATS)
def test_token_files_are_opened_by_several_threads_at_once(tmp_path: Path, kind: str) -> None:
    documents = draw([3, 0, 9, 5])
    path = FORMATS[kind](tmp_path / "a", documents)
    copy = pickle.loads(pickle.dumps(TokenFiles(path, dtype="uint16", cache=tmp_path)))  # noqa: S301 - its own.
    returned = hammer(lambda: [ids.tolist() for ids in copy.read([2, 0, 3])], lambda: list(copy.lengths))
    assert_agree(returned)
    assert returned[0][0] == [documents[number].tolist() for number in (2, 0, 3)]
    assert returned[1][0] == [3, 0, 9, 5]


def test_token_files_compare_ids_with_the_vocabulary(tmp_path: Path) -> None:
    documents = [np.arange(5, dtype=np.int32), np.full(5000, 3, np.int32), np.array([1, 7, 2], np.int32)]
    documents.append(np.array([-1], np.int32))
    write_megatron(tmp_path / "a", documents, "int32")
    files = TokenFiles(tmp_path / "a.bin", vocab_size=7)
    assert files.vocab_size == 7
    assert_same(files.read([0, 1]), documents[:2])
    assert_same(files.read([2], [2], [3]), [documents[2][2:]])
    with pytest.raises(FormatError, match=r"a\.bin, document 2, has the token 7, and `vocab_size` is 7"):
        files.read([0, 2])
    with pytest.raises(FormatError, match="document 3, has the token -1"):
        files[3]
    assert_same(list(TokenFiles(tmp_path / "a.bin")), documents)
    # The first ones are looked at at once.
    with pytest.raises(FormatError, match="near its beginning, has the token 4, and `vocab_size` is 3"):
        TokenFiles(tmp_path / "a.bin", vocab_size=3)


def test_token_files_of_mds_may_be_bytes_whose_type_is_said(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    from tests.source.packed_files import write_mds  # noqa: PLC0415

    tokens = np.arange(5, dtype=np.int64)
    sample = struct.pack("<I", tokens.nbytes) + tokens.tobytes()
    write_mds(tmp_path / "a", {"tokens": ("bytes", None)}, [[sample, struct.pack("<I", 0)]])
    with pytest.raises(FormatError, match="has bytes, which do not say their type: dtype='int64'"):
        TokenFiles(tmp_path / "a")
    files = TokenFiles(tmp_path / "a" / "index.json", dtype="int64", cache=tmp_path)
    assert_same(list(files), [tokens, tokens[:0]])
    with pytest.raises(FormatError, match="its columns are tokens, not 'ids'"):
        TokenFiles(tmp_path / "a", dtype="int64", column="ids")


def test_token_files_of_arrow_lend_views_of_their_memory(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    path = write_arrow(tmp_path / "a", draw([5, 3, 4]))
    files = TokenFiles(path)
    assert np.shares_memory(files[0], files[0])
    table = pa.table({"rows": pa.array(np.arange(12, dtype=np.int32)).cast(pa.int32())})
    rows = pa.FixedSizeListArray.from_arrays(table["rows"].combine_chunks(), 4)
    with pa.ipc.new_file(tmp_path / "b.arrow", pa.schema([("rows", rows.type)])) as writer:
        writer.write_table(pa.table({"rows": rows[1:]}))
    packed = TokenFiles(tmp_path / "b.arrow", column="rows")
    assert [each.tolist() for each in packed] == [[4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("values", [[[1, None]], [[1], None], [[1.5]], [1], [["a"]]])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_token_files_refuse_columns_that_are_no_lists_of_ints(tmp_path: Path, values: list[Any], ending: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    table = pa.table({"input_ids": pa.array(values)})
    if ending == "parquet":
        pq.write_table(table, tmp_path / "a.parquet")
    else:
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(FormatError, match=r"null|lists of integers"):
        TokenFiles(tmp_path / f"a.{ending}", cache=tmp_path).read([0])


def test_token_files_name_the_columns_that_there_are(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with pytest.raises(ValueError, match=r"`column` must be among .*, which are id, input_ids, got 'ids'"):
        TokenFiles(write_parquet(tmp_path / "a", draw([3])), column="ids")
    with pytest.raises(
        FormatError, match=r"id, input_ids, and one of the name 'ids' is wanted: say which, as `column`"
    ):
        TokenFiles(write_arrow(tmp_path / "a", draw([3])), column="ids")


def test_token_files_are_a_dataset_of_the_loaders(tmp_path: Path) -> None:
    documents = draw([4] * 30)
    write_megatron(tmp_path / "a", documents[:20])
    joined(documents[20:], "uint16").tofile(tmp_path / "b.ds")
    np.cumsum([4] * 10, dtype="<u8").tofile(tmp_path / "b.ds.index")
    files = TokenFiles([tmp_path / "a.bin", tmp_path / "b.ds"])
    order = BlockShuffledOrder(len(files), block=files.block_sizes, window=1, seed=3)
    loader: Any = DataLoader(files, batch_size=5)
    assert [each.tolist() for batch in loader for each in batch] == [each.tolist() for each in documents]
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    numbers = list(EpochSampler(order, rank=0, world_size=1))
    batches = PyTorchDataLoader(MappedRecords(files, _as_int64), batch_size=5, sampler=numbers, num_workers=2)
    found = torch.cat(list(batches))
    assert [each.tolist() for each in found] == [documents[number].tolist() for number in numbers]


def _as_int64(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return ids.astype(np.int64)


def test_token_files_are_refilled_and_shuffled_as_other_sources(tmp_path: Path) -> None:
    documents = [np.array([number], np.int32) for number in range(10)]
    documents[3] = np.array([99], np.int32)
    write_megatron(tmp_path / "a", documents, "int32")
    files = TokenFiles(tmp_path / "a.bin")
    bounded = TokenFiles(tmp_path / "a.bin")
    assert files.fingerprint() == bounded.fingerprint()
    order = ShuffledOrder(10, seed=1).take(0, np.arange(10))
    assert_same(files.read(order), [documents[number] for number in order])

    def load(number: int) -> Any:
        ids = files[number]
        if ids[0] == 99:
            raise ValueError("ninety-nine")
        return ids

    op = Refill(load, len(files), seed=1)
    assert 99 not in {int(op(number)[0]) for number in range(10)}
    assert op.count == 1


def test_token_files_are_split_among_ranks(tmp_path: Path) -> None:
    documents = draw([2, 3, 4])
    for number, document in enumerate(documents):
        write_megatron(tmp_path / str(number), [document])
    files = TokenFiles(f"{tmp_path}/{{0..2}}.bin")
    assert files.lengths.tolist() == [2, 3, 4]
    assert files.locate([2])[0].tolist() == [2]
    parts = [files.split(rank, 2) for rank in range(2)]
    assert [part.lengths.tolist() for part in parts] == [[2, 4], [3]]
    assert_same(parts[0].read([1, 0]), [documents[2], documents[0]])
    assert parts[0].locate([1])[0].tolist() == [1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": "int"}, None, ""),
        ({"dtype": "uint17"}, TypeError, "`dtype` must be a type of integers"),
        ({"dtype": "float32"}, ValueError, "`dtype` must be a type of integers"),
        ({"dtype": ">u2"}, ValueError, "`dtype` must be a type of integers"),
        ({"vocab_size": 0}, ValueError, "`vocab_size` must be"),
        ({"end_token": -1}, ValueError, "`end_token` must be"),
        ({"end_token": 1, "start_token": 1}, ValueError, "`start_token` must be None if `end_token` is given"),
        ({"column": 3}, TypeError, "`column` must be a str"),
        ({"cache": 3}, TypeError, "`cache` must be a path"),
        ({"store": 3}, TypeError, "`store` must be a store"),
    ],
)
def test_token_files_refuse_arguments(
    tmp_path: Path, options: dict[str, Any], error: type[Exception] | None, message: str
) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    if error is None:
        assert len(TokenFiles(tmp_path / "a.npy", **options)) == 1
        return
    with pytest.raises(error, match=message):
        TokenFiles(tmp_path / "a.npy", **options)


def test_token_files_refuse_numbers_and_parts_that_there_are_not(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", draw([3, 4]))
    files = TokenFiles(tmp_path / "a.bin")
    for numbers in ([2], [-1], np.array([0, 5])):
        with pytest.raises(IndexError, match="go from 0 to 1"):
            files.read(numbers)
        with pytest.raises(IndexError, match="go from 0 to 1"):
            files.locate(numbers)
    with pytest.raises(TypeError, match="`numbers` must be a sequence of ints"):
        files.read([0.5])  # type: ignore[list-item]
    for start, stop in ((0, 5), (-1, 2), (3, 2)):
        with pytest.raises(IndexError, match=r"document 1, has 4 tokens, and those from"):
            files.read([0, 1], [0, start], [3, stop])
    with pytest.raises(ValueError, match="`starts` must be as many as `numbers`"):
        files.read([0], [0, 1], [1])
    with pytest.raises(ValueError, match="`stops` must be given if `starts` is"):
        files.read([0], [0])
    stored = TokenFiles("a.bin", store=CountingStore(tmp_path))
    with pytest.raises(ValueError, match="`parts` is None: use `read`"):
        stored.locate([0])


def test_token_files_name_the_endings_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match=r"`files` must be token files: \.bin \(Megatron"):
        TokenFiles(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        TokenFiles(tmp_path / "none.bin")
    with pytest.raises(FileNotFoundError):
        TokenFiles(tmp_path / "folder")
    # Commands of Megatron take such prefixes.
    write_megatron(tmp_path / "corpus", draw([3, 4]))
    (tmp_path / "corpus_v1.5.bin").touch()
    for prefix in ("corpus", "corpus_v1.5"):
        with pytest.raises(ValueError, match=rf"There is .*{prefix}\.bin: write the whole name"):
            TokenFiles(tmp_path / prefix)
    assert len(TokenFiles(tmp_path / "corpus.bin")) == 2
    # A folder of a store cannot be told from a file of an unknown kind.
    FORMATS["litdata"](tmp_path / "data.v1", draw([3]))
    with pytest.raises(ValueError, match=r"index\.json \(MDS, LitData\), or that file"):
        TokenFiles("data.v1", store=CountingStore(tmp_path))
    assert len(TokenFiles("data.v1/index.json", store=CountingStore(tmp_path))) == 1


def test_token_files_say_which_type_they_need(tmp_path: Path) -> None:
    joined(draw([3]), "uint16").tofile(tmp_path / "a.bin")
    with pytest.raises(
        FormatError, match=r"a\.idx is missing, and the file does not say which type .*: dtype='uint16' for"
    ):
        TokenFiles(tmp_path / "a.bin")
    joined(draw([3]), "uint16").tofile(tmp_path / "a.ds")
    with pytest.raises(FormatError, match=r"a\.ds\.index is missing, and the file does not say which type"):
        TokenFiles(tmp_path / "a.ds")
    with pytest.raises(FormatError, match="has 6 bytes of tokens, and each token has 4"):
        TokenFiles(tmp_path / "a.bin", dtype="uint32")
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3, dtype=">i4"))
    (tmp_path / "a.npy").write_bytes(buffer.getvalue())
    with pytest.raises(FormatError, match="numbers in little-endian order are read"):
        TokenFiles(tmp_path / "a.npy")


def test_token_files_check_a_large_index_once(tmp_path: Path) -> None:
    count = 1 << 23
    ends = np.arange(1, count + 1, dtype="<u8")
    path, index = tmp_path / "a.ds", tmp_path / "a.ds.index"
    path.write_bytes(bytes(2 * count))
    index.write_bytes(ends.tobytes())
    files = TokenFiles(path, cache=tmp_path / "cache")
    assert len(files) == int(files.lengths.sum()) == count
    assert files.lengths.dtype == np.int32
    # Damaged without a trace, it is not looked at again; written again, it is.
    status = index.stat()
    with index.open("r+b") as file:
        file.write(b"\xff" * 8)
    os.utime(index, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(TokenFiles(path, cache=tmp_path / "cache")) == count
    os.utime(index)
    with pytest.raises(FormatError, match="is damaged, or belongs to another file"):
        TokenFiles(path, cache=tmp_path / "cache")
