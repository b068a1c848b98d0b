"""Datasets of Hugging Face's library, as objects and by their Parquet files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from spdl.dataloader import ImageLoader
from spdl.source import HuggingFaceDataset, ParquetFiles
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
datasets = pytest.importorskip("datasets", reason="needs datasets, Hugging Face's library")


datasets.disable_progress_bars()
# Even a bar that is not shown has a thread that watches it.
pytest.importorskip("tqdm").tqdm.monitor_interval = 0


@pytest.fixture
def dataset() -> Any:
    pictures = [Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)) for number in range(9)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "text": datasets.Value("string"),
        }
    )
    columns = {"image": pictures, "label": [number % 3 for number in range(9)], "text": list("abcdefghi")}
    return datasets.Dataset.from_dict(columns, features=features)


def check(records: Any, dataset: Any) -> None:
    assert len(records) == 9
    for record, expected in zip(records, dataset, strict=True):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(record["image"]))), np.asarray(expected["image"]))
        assert {**record, "image": 0} == {**expected, "image": 0}


def test_rows_are_those_of_the_dataset(dataset: Any, tmp_path: Path) -> None:
    rows = HuggingFaceDataset(dataset)
    check(rows, dataset)
    check(rows.__getitems__(range(9)), dataset)
    check([rows[position] for position in range(-9, 0)], dataset)
    assert rows.classes == ["a", "b", "c"]
    assert rows.block_sizes == [9]
    assert repr(rows) == "HuggingFaceDataset: 9 records with image, label, text"
    assert rows.fingerprint() != HuggingFaceDataset(dataset.select(range(8))).fingerprint()
    dataset.to_parquet(tmp_path / "train.parquet")
    files = ParquetFiles(tmp_path / "train.parquet")
    check(files, dataset)
    check(files.__getitems__(range(9)), dataset)


def test_the_dataset_is_taken_as_it_is(dataset: Any) -> None:
    assert HuggingFaceDataset(dataset.select_columns(["text"]))[2] == {"text": "c"}
    assert HuggingFaceDataset(dataset.with_transform(lambda batch: {"upper": [t.upper() for t in batch["text"]]}))[
        1
    ] == {"upper": "B"}
    numbers = HuggingFaceDataset(dataset.select_columns(["label"]).with_format("numpy"))
    assert isinstance(numbers[1]["label"], np.integer)


def test_the_image_loader_loads_them(dataset: Any, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "train.parquet")
    for source in (HuggingFaceDataset(dataset), ParquetFiles(tmp_path / "train.parquet")):
        batches = list(ImageLoader(source, 4, size=8, output="numpy", dtype="uint8", layout="NHWC", num_threads=1))
        images = np.concatenate([batch.image for batch in batches])
        assert [image[0, 0, 0] for image in images] == [20 * number for number in range(9)]
        assert np.concatenate([batch.label for batch in batches]).tolist() == [0, 1, 2] * 3

        def make(source: Any = source) -> ImageLoader:
            return ImageLoader(source, 4, size=8, shuffle=True, output="numpy", num_threads=1)

        assert_resumes_exactly(make, items=lambda batch: batch.index.tolist())


def test_what_is_no_dataset(dataset: Any) -> None:
    for other, message in (
        (
            datasets.DatasetDict({"train": dataset}),
            r"(?s)`dataset` must be a datasets\.Dataset.*Choose a split: 'train'",
        ),
        (dataset.to_iterable_dataset(), "has no positions: read its Parquet files by ParquetFiles"),
        ([1, 2], "`dataset` must be"),
    ):
        with pytest.raises(TypeError, match=message):
            HuggingFaceDataset(other)
