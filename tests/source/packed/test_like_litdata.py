"""Random samples that LitData has written, and what damage becomes."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import shutil
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.counting_store import CountingStore

from spdl.io import FormatError
from spdl.source import LitDataShards

with contextlib.suppress(ImportError):
    import pyarrow.parquet  # noqa: F401 - has threads that live as long as the process.
with contextlib.suppress(ImportError):
    import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_INTEGERS = (-(2**63), -1, 0, 7, 2**63 - 1)
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")


def draw_text(rng: random.Random) -> str:
    return rng.choice(["", "a", "日本語", "\n\0", "x" * rng.randrange(3000)])


def draw_json(rng: random.Random, depth: int = 0) -> Any:
    """Return what JSON can say, in the shapes that LitData writes each in a way of its own."""
    simple: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.choice([*_INTEGERS, 2**70]),
        lambda: rng.choice([0.5, -1e300, float("inf")]),
        lambda: draw_text(rng),
    ]
    if depth > 2 or rng.random() < 0.3:
        return rng.choice(simple)()
    if rng.random() < 0.4:
        return {draw_text(rng): draw_json(rng, depth + 1) for _ in range(rng.randrange(4))}
    if rng.random() < 0.3:
        names = [draw_text(rng) for _ in range(rng.randrange(3))]
        return [{name: rng.choice(simple)() for name in names} for _ in range(rng.randrange(4))]
    simple.append(lambda: draw_json(rng, depth + 1))
    draw = rng.choice(simple)
    return [draw() for _ in range(rng.randrange(5))]


def draw_leaf(rng: random.Random) -> Callable[[], Any]:
    """Return what makes the values of one part, which all have one type."""
    types = pytest.importorskip("litdata.streaming.serializers", reason="needs litdata, which writes the chunks")
    dtype, rank = rng.choice(_DTYPES), rng.randrange(1, 4)

    def array() -> Any:
        return np.array(rng.choices(range(100), k=rng.randrange(1, 5) * 4), dtype).reshape((2, 2, -1)[-rank:])

    leaves: list[Callable[[], Any]] = [
        lambda: rng.choice(_INTEGERS),
        rng.random,
        lambda: rng.random() < 0.5,
        lambda: draw_text(rng),
        lambda: rng.randbytes(rng.choice([0, 1, 50, 5000])),
        array,
        lambda: torch.from_numpy(array()),
        # One that is empty at first would be taken for a part of the structure.
        lambda: types.JsonLeaf([0, draw_json(rng)]),
    ]
    return rng.choice(leaves)


def draw_maker(rng: random.Random, depth: int = 0) -> Callable[[], Any]:
    """Return what makes samples, which all have one structure."""
    if depth == 2 or rng.random() < 0.3:
        return draw_leaf(rng)
    parts = [draw_maker(rng, depth + 1) for _ in range(rng.randrange(1, 5))]
    kind = rng.choice([dict, list, tuple])
    if kind is dict:
        names = [rng.choice(["image", "label", "é", "a.b"]) + str(number) for number in range(len(parts))]
        return lambda: {name: part() for name, part in zip(names, parts, strict=True)}
    return lambda: kind([part() for part in parts])


def write(folder: Path, rng: random.Random) -> list[Any]:
    """Write samples, and return them."""
    writers = pytest.importorskip("litdata.streaming.writer", reason="needs litdata, which writes the chunks")
    limits: dict[str, Any] = rng.choice([{"chunk_size": rng.randrange(1, 9)}, {"chunk_bytes": rng.choice([300, 9000])}])
    if rng.random() < 0.7:
        limits |= {"compression": rng.choice(["zstd", "zstd:1"])}
        if rng.random() < 0.4:
            limits["compression_batch_size"] = rng.choice([1, 2, 100])
        elif rng.random() < 0.7:
            limits["compression_level"] = rng.choice(["chunk", "batch", "sample"])
    while True:
        make = draw_maker(rng)
        samples = [make() for _ in range(rng.randrange(1, 25))]
        folder.mkdir()
        try:
            write_samples(writers.BinaryWriter(str(folder), **limits), samples)
        except (TypeError, AttributeError):
            pass  # There are things that LitData cannot write, such as some lists of its own for JSON.
        else:
            if "pickle" not in (folder / "index.json").read_text():
                return samples
        shutil.rmtree(folder)


def write_samples(writer: Any, samples: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Such as of a sample that is larger than a chunk.
        for number, sample in enumerate(samples):
            writer[number] = sample
        writer.done()
        writer.merge()


def plain(value: Any) -> Any:
    """Return a value as what can be compared."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if type(value).__name__ == "JsonLeaf":
        return plain(value.value)
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, memoryview):
        return bytes(value)
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("seed", range(40))
def test_random_samples(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    expected = [plain(each) for each in write(tmp_path / "data", rng)]
    for samples in (
        LitDataShards(tmp_path / "data"),
        LitDataShards("", store=CountingStore(tmp_path / "data"), cache_bytes=rng.choice([0, 1000, 10**6])),
        pickle.loads(pickle.dumps(LitDataShards(tmp_path / "data"))),  # noqa: S301 - our own.
    ):
        positions = [rng.randrange(len(expected)) for _ in range(30)]
        assert [plain(each) for each in samples.__getitems__(positions)] == [expected[each] for each in positions]
        assert [plain(each) for each in samples] == expected
        begin = rng.randrange(len(expected) + 1)
        assert [plain(each) for each in samples.iterate_from(begin)] == expected[begin:]


def spoil(content: bytes, rng: random.Random) -> bytes:
    place, length = rng.randrange(len(content)), rng.randrange(1, 9)
    return rng.choice(
        [
            content[:place],
            content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :],
            content[:place] + rng.choice([b"\xff", b"\0"]) * length + content[place + length :],
            content[:place] + rng.randbytes(length) + content[place:],
            content[:place] + content[place + length :],
            b"",
        ]
    )


@pytest.mark.parametrize("seed", range(100, 115))
def test_damage_is_one_kind_of_error(tmp_path: Path, seed: int) -> None:
    """Each read gives samples, or says which file is damaged or missing. Nothing else is raised, and nothing hangs."""
    rng = random.Random(seed)
    write(tmp_path / "data", rng)
    files = sorted((tmp_path / "data").iterdir())
    for _ in range(60):
        file = rng.choice(files)
        sound = file.read_bytes()
        file.write_bytes(spoil(sound, rng))
        if rng.random() < 0.05:
            file.unlink()
        store = rng.choice([None, CountingStore(tmp_path / "data")])
        try:
            samples = LitDataShards(tmp_path / "data" if store is None else "", store=store)
            for position in range(min(len(samples), 50)):
                with contextlib.suppress(FormatError):
                    samples[position]
            list(samples)
        except (FormatError, FileNotFoundError) as error:
            assert file.name in str(error) or file.name == "index.json", error  # noqa: PT017 - it may go well, too.
        file.write_bytes(sound)
    assert len(list(LitDataShards(tmp_path / "data"))) > 0


@pytest.mark.parametrize("seed", range(200, 206))
def test_chunks_of_several_versions(tmp_path: Path, seed: int) -> None:
    """What was written first is as it was, if more is added by a newer version with other settings."""
    rng = random.Random(seed)
    writers = pytest.importorskip("litdata.streaming.writer", reason="needs litdata, which writes the chunks")
    make = draw_leaf(rng)
    index: dict[str, Any] = {}
    expected = []
    for number, batch_size in enumerate(rng.sample([None, 1, 2, 50], 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = {} if batch_size is None else {"compression_batch_size": batch_size}
        samples = [make() for _ in range(7)]
        write_samples(writers.BinaryWriter(str(folder), chunk_size=3, compression="zstd", **options), samples)
        expected += [plain(each) for each in samples]
        part = json.loads((folder / "index.json").read_text())
        for chunk in part["chunks"]:
            (folder / chunk["filename"]).rename(tmp_path / f"{number}-{chunk['filename']}")
            chunk["filename"] = f"{number}-{chunk['filename']}"
        index = {**part, "chunks": [*index.get("chunks", []), *part["chunks"]]}
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert [plain(each) for each in LitDataShards(tmp_path)] == expected
    # Another chunk in the place of one: its number of samples, or its structure, is another.
    names = [chunk["filename"] for chunk in index["chunks"]]
    shutil.copy(tmp_path / names[2], tmp_path / names[0])
    with pytest.raises(FormatError, match=names[0]):
        list(LitDataShards(tmp_path))
