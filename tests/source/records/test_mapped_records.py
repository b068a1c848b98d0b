"""Records that a function changes, and the ready-made loaders on them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.images import make_jpeg
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.dataloader import ImageLoader, ImageShards
from spdl.io import TarFile
from spdl.pipeline import PipelineBuilder
from spdl.source import BlockShuffledOrder, JsonLines, MappedRecords, TarShards
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

PATTERN = "train-{0..2}.tar"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard in range(3):
        members = []
        for number in range(shard * 7, shard * 7 + 7):
            members += [(f"{number:03}.jpg", make_jpeg(16, 16, seed=number)), (f"{number:03}.cls", b"%d" % number)]
        (tmp_path / f"train-{shard}.tar").write_bytes(make_tar(members))
    return tmp_path


def to_pair(parts: dict[str, Any]) -> dict[str, Any]:
    return {"image": parts["jpg"], "label": int(bytes(parts["cls"])), "key": parts["__key__"]}


def sources(folder: Path) -> list[TarShards]:
    return [TarShards(folder / PATTERN), TarShards(PATTERN, store=CountingStore(folder), cache=folder / "cache")]


def test_records_are_those_of_the_function(folder: Path) -> None:
    for samples in sources(folder):
        pairs = MappedRecords(samples, to_pair)
        assert len(pairs) == 21
        assert pairs[-1]["label"] == 20
        assert [pair["label"] for pair in pairs] == list(range(21))
        assert [pair["label"] for pair in pairs.iterate_from(19)] == [19, 20]
        assert [pair["key"] for pair in pairs.__getitems__([3, 20, 3])] == ["003", "020", "003"]
        assert [pair["label"] for pair in pairs[5:8]] == [5, 6, 7]
        assert (pairs.block_sizes, pairs.fingerprint()) == (samples.block_sizes, samples.fingerprint())
        assert repr(pairs) == "MappedRecords of TarShards: 21 records in 3 archives"
    copy = pickle.loads(pickle.dumps(MappedRecords(sources(folder)[0], to_pair)))  # noqa: S301 - our own.
    assert copy[4]["label"] == 4


def test_mistakes_are_explained(folder: Path) -> None:
    samples: Any = sources(folder)[0]
    with pytest.raises(TypeError, match=r"`source` must be a source of records of this package, such as TarShards"):
        MappedRecords([1, 2], to_pair)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`function` must be a function of a record"):
        MappedRecords(samples, "image")  # type: ignore[arg-type]
    wrong = MappedRecords(samples, lambda parts: parts["png"])
    for read in (lambda: wrong[3], lambda: list(wrong.iterate_from(3))):
        with pytest.raises(KeyError) as caught:
            read()
        (note,) = caught.value.__notes__
        assert note.startswith("spdl.source was mapping record 3 of TarShards: 21 records in 3 archives: ")
        assert note.endswith(f"{folder / 'train-0.tar'}/003 with the fields ['__key__', 'jpg', 'cls']")
        assert f"the sample '003' of {folder / 'train-0.tar'} has 'jpg', 'cls', but no part 'png'" in str(caught.value)


def make_loader(samples: TarShards, **options: Any) -> ImageLoader:
    order = BlockShuffledOrder(len(samples), block=samples.block_sizes, window=2, seed=4)
    return ImageLoader(
        MappedRecords(samples, to_pair), 4, size=8, order=order, output="numpy", num_threads=2, seed=4, **options
    )


def test_images_are_decoded_from_the_archive_as_it_is_mapped(folder: Path) -> None:
    shards = ImageShards([folder / f"train-{number}.tar" for number in range(3)], label="cls")
    (whole,) = ImageLoader(shards, 21, size=8, output="numpy")
    for samples in sources(folder):
        found: dict[int, Any] = {}
        for batch in make_loader(samples):
            found |= dict(zip(batch.label.tolist(), batch.image, strict=True))
        assert sorted(found) == list(range(21))
        for image, label in zip(whole.image, whole.label.tolist(), strict=True):
            assert np.array_equal(found[label], image)
    # A part of a mapped archive has the address of that part: nothing was copied on the way.
    mapped, own = sources(folder)[0], TarFile(folder / "train-0.tar")
    index = own.index[own.index.find("003.jpg")]
    parts = [np.frombuffer(MappedRecords(mapped, to_pair)[number]["image"], np.uint8) for number in (0, 3)]
    first = own.index[own.index.find("000.jpg")]
    assert parts[1].ctypes.data - parts[0].ctypes.data == index.offset - first.offset
    assert not parts[0].flags.writeable


def test_loaders_go_on_within_an_archive(folder: Path) -> None:
    pytest.importorskip("torch")
    from spdl.dataloader import PyTorchDataLoader  # noqa: PLC0415 - it needs PyTorch.

    for samples in sources(folder):
        assert_resumes_exactly(lambda samples=samples: make_loader(samples), epochs=2, cuts=(0, 1, 3, 5))
        pairs = MappedRecords(samples, lambda parts: int(bytes(parts["cls"])))
        assert_resumes_exactly(lambda pairs=pairs: PyTorchDataLoader(pairs, batch_size=4))
        assert_resumes_exactly(
            lambda pairs=pairs: PipelineBuilder().add_source(pairs).add_sink(1).build(num_threads=1), cuts=(0, 5, 20)
        )


def test_records_of_other_files_are_mapped_too(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(make_jpeg(16, 16, seed=1))
    (tmp_path / "list.jsonl").write_text('{"file": "0.jpg", "label": 3}\n' * 5)
    lines = JsonLines(tmp_path / "list.jsonl", cache=tmp_path)
    pairs = MappedRecords(lines, lambda line: {"image": tmp_path / line["file"], "label": line["label"]})
    assert [batch.label.tolist() for batch in ImageLoader(pairs, 3, size=8, output="numpy")] == [[3, 3, 3], [3, 3]]
