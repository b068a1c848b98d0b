"""Samples of all encodings, read as MosaicML Streaming reads them, and what damage becomes."""

from __future__ import annotations

import io
import json
import random
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from spdl.io import FormatError
from spdl.source import MDSShards

if TYPE_CHECKING:
    from pathlib import Path

_MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "RGBX", "RGBa", "La"]
_MODES += ["I;16", "I;16B"]
_DTYPES = ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
_ENCODINGS = [
    *_DTYPES,
    "bytes",
    "int",
    "jpeg",
    "jpeg_array",
    "jpegarray",
    "json",
    "list[jpeg]",
    "list[pil]",
    "list[png]",
]
_ENCODINGS += ["ndarray", "ndarray:uint8", "ndarray:float32:2,3", "ndarray:int64:4", "pil", "png", "str", "str_decimal"]
_ENCODINGS += ["str_float", "str_int"]
_COMPRESSIONS = ("zstd", "zstd:3", "gz", "gz:1", "bz2", "br", "br:3", "snappy")


def picture(rng: random.Random, modes: list[str]) -> Image.Image:
    image = Image.new(rng.choice(modes), (rng.randrange(1, 20), rng.randrange(1, 9)))
    image.frombytes(rng.randbytes(len(image.tobytes())))
    return image


def jpeg(rng: random.Random) -> bytes:
    file = io.BytesIO()
    picture(rng, ["RGB", "L"]).save(file, "JPEG")
    return file.getvalue()


def array(rng: random.Random, encoding: str) -> np.ndarray[Any, Any]:
    _, *given = encoding.split(":")
    dtype = np.dtype(given[0] if given else rng.choice(_DTYPES))
    sizes = [rng.choice([1, 2, 300]) for _ in range(2)] + [1] * rng.randrange(3)
    shape = tuple(map(int, given[1].split(","))) if len(given) > 1 else tuple(sizes[: rng.randrange(1, 5)])
    return np.frombuffer(rng.randbytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def number(rng: random.Random, name: str) -> Any:
    dtype = np.dtype(name)
    return (
        np.frombuffer(rng.randbytes(dtype.itemsize), dtype)[0] if dtype.kind != "f" else dtype.type(rng.uniform(-9, 9))
    )


def draw(rng: random.Random, encoding: str) -> Any:
    if encoding in _DTYPES:
        return number(rng, encoding)
    if encoding.startswith("ndarray"):
        return array(rng, encoding)
    if encoding.startswith("list["):
        return [draw(rng, encoding[5:-1]) for _ in range(rng.randrange(4))]
    values: dict[str, Any] = {
        "bytes": lambda: rng.randbytes(rng.choice([0, 1, 999])),
        "int": lambda: rng.randrange(-(1 << 63), 1 << 63),
        "jpeg": lambda: Image.open(io.BytesIO(jpeg(rng))) if rng.random() < 0.5 else picture(rng, ["RGB"]),
        "jpeg_array": lambda: [jpeg(rng) for _ in range(rng.randrange(1, 4))],
        "json": lambda: rng.choice([{"a": [1, None]}, [], "x", 3.5, {"é": "\ud800"}]),
        "pil": lambda: picture(rng, _MODES),
        "png": lambda: picture(rng, ["RGB", "L", "RGBA", "1", "P", "I;16", "LA"]),
        "str": lambda: rng.choice(["", "é日", "x" * 1000, "\0"]),
        "str_decimal": lambda: Decimal(rng.randrange(1000)) / 8,
        "str_float": lambda: rng.uniform(-1, 1),
        "str_int": lambda: rng.choice([-1, 10**30]),
    }
    return values["jpeg_array" if encoding == "jpegarray" else encoding]()


def is_same(encoding: str, theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, list) and encoding != "json":
        inner = encoding[5:-1] if encoding.startswith("list[") else "jpeg"
        return len(theirs) == len(ours) and all(map(is_same, [inner] * len(ours), theirs, ours))
    if encoding == "pil":
        if theirs.mode == "1":
            return bool(np.array_equal(np.asarray(theirs), ours)) and ours.dtype == bool
        return bool(theirs.tobytes() == ours.tobytes()) and ours.shape[:2] == (theirs.height, theirs.width)
    if encoding in ("jpeg", "png"):
        return bool(np.array_equal(np.asarray(theirs), np.asarray(Image.open(io.BytesIO(ours)))))
    if isinstance(theirs, np.ndarray | np.generic):
        same = theirs.dtype == ours.dtype and theirs.shape == ours.shape
        return bool(same and theirs.tobytes() == ours.tobytes())
    return type(theirs) is type(ours) and bool(theirs == ours)


def write(
    folder: Path, rng: random.Random, compression: str | None, encodings: list[str]
) -> tuple[dict[str, str], list[Any]]:
    """Write a folder, and return its columns and what Streaming makes of the samples."""
    streaming = pytest.importorskip("streaming", reason="needs mosaicml-streaming, which writes the shards")
    columns = {f"{number}": encoding for number, encoding in enumerate(encodings)}
    samples = [{name: draw(rng, each) for name, each in columns.items()} for _ in range(rng.randrange(1, 12))]
    limit = rng.choice([1 << 12, 1 << 14, 1 << 26])
    with streaming.MDSWriter(out=str(folder), columns=columns, compression=compression, size_limit=limit) as writer:
        for sample in samples:
            writer.write(sample)
    oracle = streaming.base.format.mds.encodings
    theirs = [
        {name: oracle.mds_decode(each, oracle.mds_encode(each, sample[name])) for name, each in columns.items()}
        for sample in samples
    ]
    return columns, theirs


def check(folder: Path, columns: dict[str, str], theirs: list[Any]) -> None:
    ours = MDSShards(folder)
    assert len(ours) == len(theirs)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.keys() == columns.keys()
        for name, encoding in columns.items():
            assert is_same(encoding, expected[name], found[name]), encoding


@pytest.mark.parametrize("seed", range(24))
def test_random_samples(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    compression = None if seed % 3 == 0 else _COMPRESSIONS[seed % len(_COMPRESSIONS)]
    if compression is not None and compression.startswith(("br", "snappy")):
        pytest.importorskip("pyarrow", reason="needs pyarrow")
    check(tmp_path, *write(tmp_path, rng, compression, rng.choices(_ENCODINGS, k=rng.randrange(1, 6))))


def test_every_encoding(tmp_path: Path) -> None:
    encodings = pytest.importorskip("streaming.base.format.mds.encodings", reason="needs mosaicml-streaming")
    assert encodings.get_mds_encodings() - {"pkl"} <= set(_ENCODINGS)
    check(tmp_path, *write(tmp_path, random.Random(1), None, _ENCODINGS))


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_one_kind_of_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    compression = _COMPRESSIONS[seed % 5] if seed % 2 else None
    write(tmp_path, rng, compression, rng.choices(_ENCODINGS, k=4))
    shard = rng.choice([path for path in tmp_path.glob("shard*") if compression is None or path.suffix != ".mds"])
    for path, signs in ((shard, bytes(range(256))), (tmp_path / "index.json", b'0"9a{,[ ')):
        sound = path.read_bytes()
        for _ in range(40):
            spoilt = bytearray(sound)
            if rng.random() < 0.2:
                del spoilt[rng.randrange(len(spoilt)) :]
            else:
                for _ in range(rng.choice([1, 3, 20])):
                    spoilt[rng.randrange(len(spoilt))] = rng.choice(signs)
            path.write_bytes(spoilt)
            # Anything else is a bug. Some damage makes other values.
            with suppress(FormatError, FileNotFoundError):
                samples = MDSShards(tmp_path)
                for position in range(len(samples)):
                    with suppress(FormatError):
                        samples[position]
        path.write_bytes(sound)


def test_a_method_without_pyarrow_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    shard = {"format": "mds", "version": 2, "samples": 1, "column_names": ["a"], "column_encodings": ["str"]}
    shard |= {"column_sizes": [None], "compression": "snappy", "raw_data": {"basename": "a", "bytes": 30}}
    shard |= {"zip_data": {"basename": "a.snappy"}}
    (tmp_path / "index.json").write_text(json.dumps({"shards": [shard]}))
    with pytest.raises(ImportError, match=r"snappy needs the package pyarrow: pip install 'spdl-turbo\[parquet\]'"):
        MDSShards(tmp_path)
