"""Samples of LitData's chunks, written by LitData itself."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.source.counting_store import CountingStore

from spdl.dataloader import DataLoader
from spdl.io import FormatError
from spdl.source import EpochSampler, LitDataShards
from spdl.testing import assert_resumes_exactly

with contextlib.suppress(ImportError):
    import pyarrow.parquet  # noqa: F401 - has threads that live as long as the process.

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 11
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def make_sample(number: int) -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) + number
    jpeg = io.BytesIO()
    Image.fromarray(pixels).save(jpeg, "JPEG")
    names = ["float32", "float64", "float16", "uint8", "int8", "int16", "int32", "int64"]
    types = [getattr(torch, name) for name in names]
    return {
        "a": -number,
        "f": number / 7,
        "s": "é" * number,
        "b": bytes([number]) * number,
        "array": np.arange(6).astype(DTYPES[number % len(DTYPES)]).reshape(2, 3),
        "tensor": torch.full((2, number + 1), number, dtype=types[number % len(types)]),
        "flat": np.arange(number + 1, dtype=np.int64),
        "flat tensor": torch.arange(3 + number),
        "flag": number % 2 == 1,
        "pil": Image.fromarray(pixels),
        "jpeg": Image.open(io.BytesIO(jpeg.getvalue())),
        "nested": (1, [number, "x"], {"k": number}),
    }


def write(folder: Path, make: Any = make_sample, **options: Any) -> Path:
    writer_module = pytest.importorskip("litdata.streaming.writer", reason="needs litdata, which writes the chunks")
    folder.mkdir(exist_ok=True)
    writer = writer_module.BinaryWriter(str(folder), chunk_size=4, **options)
    for number in range(COUNT):
        writer[number] = make(number)
    writer.done()
    writer.merge()
    return folder


def check(record: Any, number: int) -> None:
    expected = make_sample(number)
    assert record.keys() == expected.keys()
    for name, value in expected.items():
        found = record[name]
        if hasattr(value, "numpy"):
            value = value.numpy()  # noqa: PLW2901
        if isinstance(value, np.ndarray):
            assert found.dtype == value.dtype
            assert found.tolist() == value.tolist()
        elif name == "pil":
            assert np.array_equal(found, np.asarray(value))
        elif name == "jpeg":
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(found))), np.asarray(value))
        else:
            assert found == value
            assert type(found) is type(value)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_samples_are_those_that_were_written(tmp_path: Path, compression: str | None) -> None:
    write(tmp_path, compression=compression)
    for samples in (LitDataShards(tmp_path), LitDataShards("", store=CountingStore(tmp_path))):
        assert len(samples) == COUNT
        assert samples.block_sizes == [4, 4, 3]
        for number, record in enumerate(samples):
            check(record, number)
        for number, record in zip((10, 0, 5), samples.__getitems__([10, 0, 5]), strict=True):
            check(record, number)
    check(pickle.loads(pickle.dumps(LitDataShards(tmp_path)))[5], 5)  # noqa: S301 - our own.
    assert LitDataShards(tmp_path).fingerprint() == samples.fingerprint()


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_samples_of_single_values(tmp_path: Path, compression: str | None) -> None:
    """Newer versions of LitData write them as Arrow files."""
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    write(tmp_path, make=lambda number: {"a": number, "s": "é" * number, "b": b"x" * number}, compression=compression)
    for samples in (LitDataShards(tmp_path), LitDataShards("", store=CountingStore(tmp_path))):
        assert samples[7] == {"a": 7, "s": "é" * 7, "b": b"x" * 7}
        assert [each["a"] for each in samples] == list(range(COUNT))
    chunk = next(tmp_path.glob("*0.bin"))
    sound = chunk.read_bytes()
    for spoilt in (sound[:-1], sound[:60], sound[:-20] + bytes(8) + sound[-12:]):
        chunk.write_bytes(spoilt)
        with pytest.raises(FormatError, match=chunk.name):
            list(LitDataShards(tmp_path))
    for place in range(20, len(sound), 7):
        chunk.write_bytes(sound[:place] + bytes([sound[place] ^ 0xFF]) + sound[place + 1 :])
        with contextlib.suppress(FormatError):
            list(LitDataShards(tmp_path))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_frames_of_any_size(tmp_path: Path, size: int) -> None:
    write(tmp_path, compression="zstd", compression_batch_size=size)
    samples = LitDataShards(tmp_path, cache_bytes=0)
    for number in (10, 3, 0, 4, 7):
        check(samples[number], number)
    for chunk in tmp_path.glob("*.bin"):
        sound = chunk.read_bytes()
        for place in range(0, len(sound), 97):
            spoilt = bytearray(sound)
            spoilt[place] ^= 0xFF
            chunk.write_bytes(spoilt)
            with contextlib.suppress(FormatError):
                list(LitDataShards(tmp_path))
        chunk.write_bytes(sound[: len(sound) // 2])
        with pytest.raises(FormatError, match=chunk.name):
            list(LitDataShards(tmp_path))
        chunk.write_bytes(sound)


@pytest.mark.parametrize("sample", ["x", True, b""])
def test_a_chunk_may_be_smaller_than_the_head_of_another(tmp_path: Path, sample: Any) -> None:
    assert list(LitDataShards(write(tmp_path, make=lambda _: sample))) == [sample] * COUNT


def test_media_files_are_their_bytes(tmp_path: Path) -> None:
    files = {}
    for ending, content in ((".jpg", make_sample(1)["jpeg"].fp.getvalue()), (".mp4", b"video"), (".wav", b"sound")):
        files[ending] = tmp_path / f"file{ending}"
        files[ending].write_bytes(content)

    def make(number: int) -> dict[str, Any]:
        return {"list": [make_sample(number)["jpeg"]] * 2, **{key: str(path) for key, path in files.items()}}

    record = LitDataShards(write(tmp_path / "data", make))[3]
    assert {key: bytes(record[key]) for key in files} == {key: path.read_bytes() for key, path in files.items()}
    assert [Image.open(io.BytesIO(each)).size for each in record["list"]] == [(3, 2)] * 2


def test_a_sample_need_not_be_a_dict(tmp_path: Path) -> None:
    samples = LitDataShards(write(tmp_path, make=lambda number: number))
    assert list(samples) == list(range(COUNT))


def test_resumes_exactly(tmp_path: Path) -> None:
    samples = LitDataShards(write(tmp_path, make=lambda number: {"a": number}))

    def make() -> DataLoader[int, Any]:
        sampler = EpochSampler(len(samples), batch_size=4, rank=0, world_size=1)
        return DataLoader(
            sampler,
            batch_size=4,
            aggregator=lambda batch: [each["a"] for each in samples.__getitems__(batch)],
            output_order="input",
            num_threads=1,
        )

    assert_resumes_exactly(make)


def test_pickle_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, make=lambda number: {"a": {number, 1}})
    with pytest.raises(FormatError, match=r"parts of the format 'pickle', which is not read: unpickling may run"):
        LitDataShards(tmp_path)


SPEC = (
    '[1, {"type": "builtins.dict", "context": "[\\"s\\", \\"i\\"]", "children_spec": '
    '[{"type": null, "context": null, "children_spec": []}, {"type": null, "context": null, "children_spec": []}]}]'
)


def write_by_hand(folder: Path, data: bytes = b"", chunk: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a chunk of two samples of a str and an int."""
    samples = [b"\2\0\0\0\x08\0\0\0ab\1" + bytes(7), b"\0\0\0\0\x08\0\0\0\2" + bytes(7)]
    ends = np.cumsum([16, *map(len, samples)]).astype("<u4")
    config = {
        "compression": None,
        "data_format": ["str", "int"],
        "data_spec": SPEC,
        "encryption": None,
        "item_loader": "PyTreeLoader",
    } | changes
    chunks = [{"filename": "chunk.bin", "chunk_size": 2} | (chunk or {})]
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    (folder / "chunk.bin").write_bytes(data or b"\2\0\0\0" + ends.tobytes() + b"".join(samples))
    return folder


def test_a_chunk_written_by_hand(tmp_path: Path) -> None:
    assert list(LitDataShards(write_by_hand(tmp_path))) == [{"s": "ab", "i": 1}, {"s": "", "i": 2}]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shape", [(2, 3), (1, 1, 1), (), (0, 3), (5, 70)])
def test_a_tensor_has_its_head_in_the_order_of_either_version(tmp_path: Path, order: str, shape: Any) -> None:
    # Version 0.2.0 to some 0.2.52 write little-endian numbers, those from 0.2.58 on big-endian ones.
    expected = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    head = struct.pack(f"{order}{2 + len(shape)}I", 18, len(shape), *shape)
    sample = [head + expected.tobytes(), (7).to_bytes(8, "little")]
    sample.insert(0, struct.pack("<2I", *map(len, sample)))
    content = struct.pack("<3I", 1, 12, 12 + sum(map(len, sample))) + b"".join(sample)
    write_by_hand(tmp_path, content, {"chunk_size": 1}, data_format=["tensor", "int"])
    (found,) = LitDataShards(tmp_path)
    assert found["i"] == 7
    assert found["s"].dtype == np.int64
    np.testing.assert_array_equal(found["s"], expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item_loader": "TokensLoader"}, "its chunks are for the loader 'TokensLoader'"),
        ({"encryption": {"a": 1}}, "encrypted ones are not read"),
        ({"compression": "lz4"}, "its chunks are compressed by 'lz4', and zstd can be read"),
        ({"data_format": ["str", "pickle"]}, "unpickling may run any program"),
        ({"data_format": ["str", "video"]}, "parts of the format 'video'"),
        ({"data_format": ["str", "no_header_numpy:14"]}, "arrays of the type 14 are not read"),
        ({"data_format": ["str"]}, "its samples have 2 parts, and 1 formats"),
        ({"data_format": [3]}, "its format of a part is 3, not of the type str"),
        ({"data_spec": "{"}, "not a structure of samples"),
        ({"data_spec": "[2, {}]"}, "has version 2"),
        ({"data_spec": "[1, 3]"}, "'data_spec' is damaged"),
        ({"data_spec": SPEC.replace("builtins.dict", "os.system")}, "parts of the type 'os.system'"),
        ({"data_spec": SPEC.replace(', \\"i\\"', "")}, "'data_spec' is damaged"),
        ({"chunk": {"chunk_size": -1}}, "its 'chunk_size' is -1, not a number from 0 to"),
        ({"chunk": {"chunk_size": 1 << 70}}, "its 'chunk_size' is 1180591620717411303424, not a number from 0 to"),
        ({"chunk": {"chunk_size": 0}}, "not the file of its index, which says it has 0 samples"),
        # So version 0.2.0 has written samples of one tensor.
        ({"item_loader": "PyTreeLoader", "chunk": {"dim": 12}}, "one tensor after the other, .*TokenFiles"),
    ],
)
def test_an_index_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_by_hand(tmp_path, **changes)
    with pytest.raises(FormatError, match=message):
        LitDataShards(tmp_path)


def test_damage_is_an_error_or_changes_values(tmp_path: Path) -> None:
    sound = (write_by_hand(tmp_path) / "chunk.bin").read_bytes()
    for place in range(len(sound)):
        spoilt = bytearray(sound)
        spoilt[place] ^= 0x81
        samples = LitDataShards(write_by_hand(tmp_path, bytes(spoilt)))
        for position in range(2):
            try:
                assert samples[position].keys() == {"s", "i"}
            except FormatError as error:
                assert "chunk.bin" in str(error)  # noqa: PT017 - it may go well, too.
    for end in range(1, len(sound)):
        with pytest.raises(FormatError, match=r"chunk\.bin"):
            list(LitDataShards(write_by_hand(tmp_path, sound[:end])))


def test_the_first_sample_takes_three_requests(tmp_path: Path) -> None:
    write_by_hand(tmp_path)
    store = CountingStore(tmp_path)
    assert LitDataShards("", store=store)[0] == {"s": "ab", "i": 1}
    assert [path for path, _ in store.requests] == ["index.json", "chunk.bin", "chunk.bin"]
