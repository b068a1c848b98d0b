"""Samples of MosaicML Streaming's shards, written by Streaming itself."""

from __future__ import annotations

import io
import json
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.source.counting_store import CountingStore

from spdl.dataloader import DataLoader
from spdl.io import FormatError
from spdl.source import EpochSampler, MDSShards
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {
    "a": "int",
    "s": "str",
    "b": "bytes",
    "j": "json",
    "nd": "ndarray",
    "nd1": "ndarray:uint8",
    "nd2": "ndarray:int16:2,3",
    "f": "float32",
    "u": "uint8",
    "i": "int64",
    "si": "str_int",
    "sf": "str_float",
    "sd": "str_decimal",
    "pil": "pil",
    "gray": "pil",
    "jpeg": "jpeg",
    "png": "png",
}
DTYPES = ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
COUNT = 23


def make_sample(number: int) -> dict[str, Any]:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) + number
    jpeg = io.BytesIO()
    Image.fromarray(pixels).save(jpeg, "JPEG")
    shape = [(number + 1,), (2, 3), (300,), (70_000,), (1, 2, 1, 2)][number % 5]
    return {
        "a": -number,
        "s": "é" * number,
        "b": bytes([number]) * number,
        "j": {"k": [number, None]},
        "nd": np.arange(np.prod(shape)).astype(DTYPES[number % len(DTYPES)]).reshape(shape),
        "nd1": np.arange(number + 1, dtype=np.uint8),
        "nd2": np.full((2, 3), number, np.int16),
        "f": np.float32(number / 2),
        "u": np.uint8(number),
        "i": np.int64(-number),
        "si": 10**20 + number,
        "sf": number / 7,
        "sd": Decimal(f"1.{number}0"),
        "pil": Image.fromarray(pixels),
        "gray": Image.fromarray(pixels[..., 0]),
        "jpeg": Image.open(io.BytesIO(jpeg.getvalue())),
        "png": Image.fromarray(pixels),
    }


def write(folder: Path, columns: dict[str, str] = COLUMNS, count: int = COUNT, **options: Any) -> Path:
    streaming = pytest.importorskip("streaming", reason="needs mosaicml-streaming, which writes the shards")
    with streaming.MDSWriter(out=str(folder), columns=columns, size_limit=1 << 18, **options) as writer:
        for number in range(count):
            sample = make_sample(number)
            writer.write({name: sample[name] for name in columns})
    return folder


def check(record: dict[str, Any], number: int) -> None:
    expected = make_sample(number)
    assert record.keys() == expected.keys()
    for name, value in expected.items():
        found = record[name]
        if isinstance(value, np.ndarray):
            assert found.dtype == value.dtype
            assert found.tolist() == value.tolist()
        elif name in ("pil", "gray"):
            assert np.array_equal(found, np.asarray(value))
        elif name in ("jpeg", "png"):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(found))), np.asarray(value))
        else:
            assert found == value
            assert type(found) is type(value)


@pytest.mark.parametrize("compression", [None, "zstd", "gz:6", "bz2"])
def test_the_samples_are_those_that_were_written(tmp_path: Path, compression: str | None) -> None:
    write(tmp_path, compression=compression)
    for samples in (MDSShards(tmp_path), MDSShards("", store=CountingStore(tmp_path)), MDSShards(tmp_path.as_uri())):
        assert len(samples) == COUNT
        assert len(samples.block_sizes) > 1
        for number, record in enumerate(samples):
            check(record, number)
        for number, record in zip((22, 0, 11), samples.__getitems__([22, 0, 11]), strict=True):
            check(record, number)
    check(pickle.loads(pickle.dumps(MDSShards(tmp_path)))[5], 5)  # noqa: S301 - our own.


def test_a_sample_is_one_range(tmp_path: Path) -> None:
    write(tmp_path, {"a": "int", "b": "bytes"})
    store = CountingStore(tmp_path)
    samples = MDSShards("", store=store)
    assert [path for path, _ in store.requests] == ["index.json"]
    samples[3]
    store.requests.clear()
    assert samples[5] == {"a": -5, "b": b"\x05" * 5}
    assert store.requests == [("shard.00000.mds", 4 + 8 + 5)]


def test_resumes_exactly(tmp_path: Path) -> None:
    samples = MDSShards(write(tmp_path, {"a": "int"}))

    def make(rank: int, world_size: int) -> DataLoader[int, Any]:
        sampler = EpochSampler(len(samples), batch_size=4, rank=rank, world_size=world_size, data=samples.fingerprint())
        return DataLoader(
            sampler,
            batch_size=4,
            aggregator=lambda batch: [each["a"] for each in samples.__getitems__(batch)],
            output_order="input",
            num_threads=1,
        )

    assert_resumes_exactly(make, world=(1, 2), cuts=(0, 1, 2))


def test_pickle_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("streaming", reason="needs mosaicml-streaming, which writes the shards")
    write(tmp_path, {"a": "int"})
    path = tmp_path / "index.json"
    for encoding in ("pkl", "list[pkl]", "other"):
        path.write_text(path.read_text().replace('"int"', f'"{encoding}"'))
        with pytest.raises(FormatError, match=r"index\.json: the column 'a' has the encoding '.*', which is not read"):
            MDSShards(tmp_path)
        path.write_text(path.read_text().replace(f'"{encoding}"', '"int"'))


def write_by_hand(folder: Path, data: bytes = b"", **changes: Any) -> Path:
    """Write a shard of two samples of a str and an int32."""
    samples = [b"\x02\0\0\0" + b"ab" + b"\x01\0\0\0", b"\0\0\0\0" + b"\x02\0\0\0"]
    ends = np.cumsum([16 + 4, *map(len, samples)]).astype("<u4")
    shard = {
        "format": "mds",
        "version": 2,
        "samples": 2,
        "column_names": ["s", "i"],
        "column_encodings": ["str", "int32"],
        "column_sizes": [None, 4],
        "compression": None,
        "raw_data": {"basename": "shard.mds"},
        "zip_data": None,
    } | changes
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    (folder / "shard.mds").write_bytes(data or b"\2\0\0\0" + ends.tobytes() + bytes(4) + b"".join(samples))
    return folder


def test_a_shard_written_by_hand(tmp_path: Path) -> None:
    assert list(MDSShards(write_by_hand(tmp_path))) == [{"s": "ab", "i": 1}, {"s": "", "i": 2}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "json"}, "its shards have the format 'json' of version 2, and 'mds' of version 2 is read"),
        ({"version": 3}, "of version 3"),
        ({"samples": "2"}, "its 'samples' is '2', not of the type int"),
        ({"samples": -1}, "its 'samples' is -1, not a number from 0 to"),
        ({"samples": 1 << 63}, "its 'samples' is 9223372036854775808, not a number from 0 to"),
        ({"samples": 0}, "not the file of its index, which says it has 0 samples"),
        ({"column_sizes": [None]}, "not as many as their encodings"),
        ({"column_sizes": [None, "4"]}, "its size of a column is '4', not of the type int or null"),
        ({"column_names": None}, "its 'column_names' is None, not of the type list"),
        ({"column_encodings": ["str", "pkl"]}, "unpickling may run any program"),
        ({"column_encodings": ["str", "ndarray:object"]}, "there are no arrays of the type 'object'"),
        ({"column_encodings": ["str", "float8"]}, "which is not read"),
        ({"column_encodings": ["str", "ndarray:int8:,4"]}, "which is not read"),
        ({"compression": "lz4:5"}, "its shards are compressed by 'lz4:5', and zstd, gz, bz2, br, snappy can be read"),
        ({"compression": "zstd"}, "its 'bytes' is None"),
        ({"compression": "zstd", "raw_data": {"bytes": 1 << 40}}, "not a number from 0 to 4294967295"),
        ({"compression": "zstd", "raw_data": {"bytes": 60}}, "its file of a shard is None"),
    ],
)
def test_an_index_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_by_hand(tmp_path, **changes)
    with pytest.raises(FormatError, match=message):
        MDSShards(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"shards": 3}', '{"shards": [3]}'])
def test_an_index_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(FormatError, match=r"index\.json"):
        MDSShards(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        MDSShards(tmp_path / "none")


def test_damage_is_an_error_or_changes_values(tmp_path: Path) -> None:
    sound = (write_by_hand(tmp_path) / "shard.mds").read_bytes()
    for place in range(len(sound)):
        for bit in (1, 0x80):
            spoilt = bytearray(sound)
            spoilt[place] ^= bit
            samples = MDSShards(write_by_hand(tmp_path, bytes(spoilt)))
            for position in range(2):
                try:
                    assert samples[position].keys() == {"s", "i"}
                except FormatError as error:
                    assert "shard.mds" in str(error)  # noqa: PT017 - it may go well, too.
    for end in range(1, len(sound)):
        with pytest.raises(FormatError, match=r"shard\.mds"):
            list(MDSShards(write_by_hand(tmp_path, sound[:end])))


def test_columns_that_do_not_fill_their_sample(tmp_path: Path) -> None:
    samples = MDSShards(write_by_hand(tmp_path, column_encodings=["str", "int16"], column_sizes=[None, 2]))
    with pytest.raises(FormatError, match=r"shard\.mds, sample 0: its columns have 8 bytes, and the sample 10"):
        samples[0]
