"""Arrays come from npy files, from npz files with one sample or many, and from arrays in memory, alike."""

from __future__ import annotations

import io
import itertools
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl.dataloader import ArrayLoader, ArrayRows
from spdl.io import FormatError, LoadError, load_npy, save_npz
from spdl.source import ArrayFolder
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 11
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, 3, 4), np.uint8)
LABELS = (np.arange(COUNT) % 3).astype(np.uint8)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    # numpy's own writer, not ours.
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def make(source: Any, batch_size: int = 4, **options: Any) -> ArrayLoader:
    return ArrayLoader(source, batch_size, **{"output": "numpy", "num_threads": 2, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ArrayFolder:
    """Npy files of three classes."""
    root = tmp_path_factory.mktemp("arrays")
    for index, image in enumerate(IMAGES):
        path = root / "abc"[LABELS[index]] / f"{index:02}.npy"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(npy(image))
    return ArrayFolder(root)


def test_a_folder_of_npy_files(folder: ArrayFolder) -> None:
    loader = make(folder, shuffle=True, output="torch")
    seen = []
    for batch in loader:
        data, labels = batch
        assert (data.dtype, labels.dtype) == (torch.uint8, torch.int64)
        for image, label, path, index in zip(data, labels, batch.path, batch.index, strict=True):
            assert (image.numpy() == np.load(str(path))).all()
            assert (path, label) == folder.samples[index]
            seen.append(int(index))
    assert sorted(seen) == list(range(COUNT))


def test_what_is_in_npy_files_is_what_is_in_npz_files_in_rows_and_in_memory(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.npy" for index in range(COUNT)]
    for path, image in zip(paths, IMAGES, strict=True):
        path.write_bytes(npy(image))
    large = tmp_path / "large.npz"
    np.savez_compressed(large, image=IMAGES, label=LABELS)
    sources: list[Any] = [
        list(zip(paths, LABELS, strict=True)),
        [(npy(image), label) for image, label in zip(IMAGES, LABELS, strict=True)],
        [(memoryview(npy(image)), label) for image, label in zip(IMAGES, LABELS, strict=True)],
        [npz(image=image, label=label) for image, label in zip(IMAGES, LABELS, strict=True)],
        [(npz(image=image), label) for image, label in zip(IMAGES, LABELS, strict=True)],
        [{"file": {"image": image, "label": label}} for image, label in zip(IMAGES, LABELS, strict=True)],
        [({"image": torch.from_numpy(image)}, label) for image, label in zip(IMAGES, LABELS, strict=True)],
        ArrayRows(large),
        ArrayRows(large.read_bytes()),
        ArrayRows([{"image": IMAGES[:5], "label": LABELS[:5]}, npz(image=IMAGES[5:], label=LABELS[5:])]),
        # Files of both kinds in one batch.
        [(npy(image) if index % 2 else npz(image=image), LABELS[index]) for index, image in enumerate(IMAGES)],
    ]
    for source in sources:
        batches = list(make(source, seed=3, shuffle=True))
        order = np.concatenate([batch.index for batch in batches])
        assert sorted(order) == list(range(COUNT))
        assert (np.concatenate([batch.data for batch in batches]) == IMAGES[order]).all()
        assert (np.concatenate([batch.label for batch in batches]) == LABELS[order]).all()
        assert {batch.label.dtype for batch in batches} == {np.dtype(np.int64)}
        assert {batch.data.dtype for batch in batches} == {np.dtype(np.uint8)}
        assert not any(batch.failures for batch in batches)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(sum),
    st.sampled_from([np.float32, np.int16, ">f8", ">u2", bool, np.complex64]),
    st.sampled_from([(), (2,), (2, 3), (0,)]),
    st.integers(1, 7),
    st.booleans(),
)
def test_rows_of_any_files_are_their_rows(
    sizes: list[int],
    dtype: Any,
    shape: tuple[int, ...],
    batch_size: int,
    fortran: bool,  # noqa: FBT001 - drawn.
) -> None:
    whole = (np.arange(sum(sizes) * int(np.prod(shape))) % 251).reshape(sum(sizes), *shape).astype(dtype)
    parts = np.split(whole, list(itertools.accumulate(sizes))[:-1])
    files: list[Any] = [
        npz(x=np.asfortranarray(part) if fortran else part) if number % 2 else {"x": part}
        for number, part in enumerate(parts)
    ]
    rows = ArrayRows(files)
    assert len(rows) == len(whole)
    batches = list(make(rows, batch_size, data="x", label=None, shuffle=True, seed=1))
    order = np.concatenate([batch.index for batch in batches])
    found = np.concatenate([batch.data for batch in batches])
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert found.tolist() == whole[order].tolist()
    assert all(batch.data.flags.owndata or batch.data.base is not None for batch in batches)


def test_rows_are_a_sequence(tmp_path: Path) -> None:
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    with pytest.raises(ValueError, match=r"equally many rows.*'x_train': 11.*'x_test': 2.*`names` says which"):
        ArrayRows(path)
    rows = ArrayRows(path, names=["x_train", "y_train"])
    assert (len(rows), rows[-1].index, rows[-1].label) == (COUNT, COUNT - 1, None)
    assert rows[3].path == f"{path}[3]"
    assert (rows[3].file["x_train"] == IMAGES[3]).all()
    assert [it.index for it in rows[8:]] == [8, 9, 10]
    with pytest.raises(IndexError, match="there are 11 rows, got the index 11"):
        rows[COUNT]
    assert repr(rows) == "ArrayRows: 11 rows of x_train, y_train"
    assert repr(rows[3].file) == "row 3 of x_train, y_train"
    batch = next(iter(make(rows, data="x_train", label="y_train")))
    assert (batch.data == IMAGES[:4]).all()
    # Batches have memory of their own.
    batch.data[:] = 0
    assert (next(iter(make(rows, data="x_train", label="y_train"))).data == IMAGES[:4]).all()
    with pytest.raises(KeyError, match="the files have no array 'label': they have 'x_train', 'y_train'"):
        list(make(rows, data="x_train"))


def test_rows_can_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    save_npz(path, {"image": np.zeros((1000, 100)), "label": np.arange(1000)})
    rows = ArrayRows(path)
    pickled = pickle.dumps(rows)
    # The file is not in it.
    assert len(pickled) < 1000
    copy = pickle.loads(pickled)  # noqa: S301 - our own.
    assert (copy[7].file["label"], copy.fingerprint()) == (7, rows.fingerprint())
    with np.load(path) as opened:
        rows = ArrayRows(opened)
    copy = pickle.loads(pickle.dumps(rows))  # noqa: S301
    assert copy[7].file["label"] == 7


def test_a_mapped_npy_file_is_a_table_too(tmp_path: Path) -> None:
    (tmp_path / "images.npy").write_bytes(npy(IMAGES))
    rows = ArrayRows({"image": load_npy(tmp_path / "images.npy"), "label": LABELS})
    assert (next(iter(make(rows))).data == IMAGES[:4]).all()


def test_a_fingerprint_tells_rows_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "rows.npz", image=IMAGES, label=LABELS)
    np.savez(tmp_path / "other.npz", image=IMAGES.astype(np.float32), label=LABELS)
    same = [ArrayRows(tmp_path / name / "rows.npz").fingerprint() for name in ("a", "b")]
    assert same[0] == same[1]
    others = [
        ArrayRows(tmp_path / "other.npz"),
        ArrayRows(tmp_path / "a" / "rows.npz", names=["image"]),
        ArrayRows([tmp_path / "a" / "rows.npz", tmp_path / "b" / "rows.npz"]),
    ]
    assert len({same[0], *(it.fingerprint() for it in others)}) == 4


@pytest.mark.parametrize("bad", [b"no array", npy(IMAGES[0])[:-1], npy(IMAGES[0, 0]), npy(IMAGES[0].astype(float))])
def test_npy_files_that_fail_are_errors_left_out_or_replaced(bad: bytes) -> None:
    files = [(npy(image), 0) for image in IMAGES]
    files[2] = bad, 1
    with pytest.raises(LoadError, match=r"1 of 4 files of a batch could not be loaded\n  sample 2"):
        list(make(files))
    skipped = list(make(files, on_error="skip"))
    assert [index for batch in skipped for index in batch.index.tolist()] == [0, 1, *range(3, COUNT)]
    loader = make(files, on_error="refill")
    first = next(iter(loader))
    (failure,) = loader.failures
    assert first.index.tolist() == [0, 1, failure.replacement, 3]
    assert (first.data == IMAGES[first.index]).all()
    assert first.label.tolist() == [0] * 4
    resumed = make(files, on_error="refill")
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert resumed.failures == [failure]


def test_objects_are_never_unpickled() -> None:
    file = io.BytesIO()
    np.save(file, np.array([{1}], object), allow_pickle=True)
    with pytest.raises(LoadError, match="object"):
        list(make([(file.getvalue(), 0)] * 2))
    with pytest.raises(FormatError):
        ArrayRows(npz(x=np.array([{1}], object)))
    with pytest.raises(ValueError, match="a row for each sample"):
        ArrayRows({"x": np.array([{1}], object)})


@pytest.mark.parametrize("kind", ["folder", "rows"])
def test_any_two_cuts_lose_nothing(folder: ArrayFolder, kind: str) -> None:
    source: Any = folder if kind == "folder" else ArrayRows({"image": IMAGES, "label": LABELS})

    def make_loader(batch_size: int, rank: int, world_size: int) -> ArrayLoader:
        return make(source, batch_size, shuffle=True, num_threads=1, rank=rank, world_size=world_size)

    assert_resumes_exactly(make_loader, world=(1, 3), batch=(1, 4), cuts=(0, 1, 2), items=lambda it: it.index.tolist())


@pytest.mark.parametrize(
    ("files", "names", "error", "message"),
    [
        (3, None, TypeError, "`files` must be an npz file"),
        ([], None, ValueError, "`files` must be at least one file"),
        ([3], None, TypeError, r"`files\[0\]` must be an npz file"),
        ({"x": np.zeros((0, 2))}, None, ValueError, "`files` must be arrays with rows"),
        ({"x": np.array(3)}, None, ValueError, "`files` must be arrays with a row for each sample"),
        ({"x": "text"}, None, ValueError, "`files` must be arrays with a row for each sample"),
        ({}, None, ValueError, "`files` must be files with arrays"),
        (
            {"x": np.zeros(2)},
            ["y"],
            ValueError,
            r"`names` must be names of arrays of files\[0\], such as 'x', got .'y'",
        ),
        ({"x": np.zeros(2)}, "x", TypeError, "`names` must be a list of names"),
        ({"x": np.zeros(2)}, [], ValueError, "`names` must be a list of names"),
        ({"x": np.zeros(2)}, [3], TypeError, "`names` must be a list of names"),
        ({"x": np.zeros(2)}, 3, TypeError, "`names` must be a list of names"),
        ([{"x": np.zeros(2)}, {"y": np.zeros(2)}], None, ValueError, r"rows are alike.*got .files\[1\]"),
        ([{"x": np.zeros(2)}, {"x": np.zeros((2, 1))}], None, ValueError, "rows are alike"),
        ([{"x": np.zeros(2)}, {"x": np.zeros(2, int)}], None, ValueError, "rows are alike"),
        (b"no archive", None, FormatError, "zip"),
    ],
)
def test_mistakes_are_explained(files: Any, names: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ArrayRows(files, names=names)


def test_what_is_no_file_is_a_mistake() -> None:
    with pytest.raises(LoadError, match="sample 1: `file` must be a path or the bytes of an npz or npy file, or "):
        list(make([(3, 0), (4, 1)]))
