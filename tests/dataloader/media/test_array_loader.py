"""The loader of arrays delivers what `load_npz_batch` loads, and finds the files that fail."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spdl.dataloader import ArrayLoader, LabelledBatch
from spdl.io import LoadError, save_npz
from spdl.testing import assert_resumes_exactly


def make_npz(number: int, shape: tuple[int, ...] = (3, 4), **more: Any) -> bytes:
    file = io.BytesIO()
    arrays = {"image": np.full(shape, number, np.float32), "label": np.array(number % 3), "weight": np.array(0.5)}
    save_npz(file, {**arrays, **more}, compression="deflate" if number % 2 else None)
    return file.getvalue()


FILES = [make_npz(number) for number in range(9)]


def make(source: Any, batch_size: int = 4, **options: Any) -> ArrayLoader:
    return ArrayLoader(source, batch_size, **{"output": "numpy", "num_threads": 2, **options})


def test_a_batch_is_a_record_of_arrays() -> None:
    batches = list(make(FILES, output="torch"))
    assert [len(batch.data) for batch in batches] == [4, 4, 1]
    for batch in batches:
        assert type(batch) is LabelledBatch
        data, labels = batch
        assert (data.dtype, labels.dtype, batch.weight.dtype) == (torch.float32, torch.int64, torch.float64)
        assert (data == batch.index.view(-1, 1, 1)).all()
        assert (labels == batch.index % 3).all()


def test_paths_and_other_names(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(make_npz(number, x=np.array([number, 2.5])))
        paths.append(path)
    (batch,) = make(paths, data="x", label=None)
    assert batch.data.tolist() == [[0, 2.5], [1, 2.5], [2, 2.5]]
    assert batch.path == [str(path) for path in paths]
    assert batch.label.tolist() == [0, 1, 2]
    with pytest.raises(KeyError, match="the files have no array 'y': they have 'image', 'label'"):
        list(make(paths, data="y"))


@pytest.mark.parametrize("bad", [b"no archive", make_npz(1, (5, 5)), make_npz(1)[:200]])
def test_files_that_fail_are_errors_left_out_or_replaced(bad: bytes) -> None:
    files = [*FILES[:2], bad, *FILES[3:6]]
    with pytest.raises(LoadError, match=r"1 of 4 files of a batch could not be loaded\n  sample 2"):
        list(make(files))
    assert [batch.index.tolist() for batch in make(files, on_error="skip")] == [[0, 1, 3], [4, 5]]
    loader = make(files, on_error="refill")
    first, _ = loader
    (failure,) = {failure for failure in loader.failures if failure.index == 2}
    assert first.index.tolist() == [0, 1, failure.replacement, 3]
    assert (first.data[:, 0, 0] == first.index).all()
    with pytest.raises(LoadError, match="All files of epoch 0 failed"):
        list(make([b"no archive"] * 3, on_error="skip"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WebP", "TIFF", "AVIF"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_of_another_format_is_named(tmp_path: Path, kind: str, in_memory: bool) -> None:  # noqa: FBT001
    path = tmp_path / "photo"
    Image.new("RGB", (8, 8)).save(path, kind)
    message = f"sample 1.*: it is an? {kind} image, not an npz or npy file: ImageLoader loads it"
    with pytest.raises(LoadError, match=message):
        list(make([FILES[0], path.read_bytes() if in_memory else path]))


def test_if_no_replacement_can_be_loaded_each_sample_is_named_once() -> None:
    with pytest.raises(LoadError, match=r"^3 of 3 files of a batch could not be loaded") as raised:
        list(make([b"no archive"] * 3, 3, on_error="refill"))
    lines = str(raised.value).splitlines()
    assert [line.partition(":")[0] for line in lines[1:4]] == ["  sample 0", "  sample 1", "  sample 2"]
    assert "None of 2 other samples" in lines[4]
    with pytest.raises(LoadError, match="There is no other sample"):
        list(make([b"no archive"], on_error="refill"))


@pytest.mark.parametrize("timeout", [0, -1, -0.5])
def test_a_timeout_in_which_nothing_can_come_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"`timeout` must be a number of seconds above 0, or None"):
        make(FILES, timeout=timeout)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_gpu_that_is_not_there_is_refused_at_once(device: Any) -> None:
    with pytest.raises(ValueError, match=r"`device` must be None on a machine without CUDA, got .*finds no GPU"):
        make(FILES, output="torch", device=device)


@pytest.mark.parametrize(
    "other",
    [
        make_npz(1, (3, 1)),
        make_npz(1, (5, 5)),
        make_npz(1, image=np.full((3, 4), 0.5)),
        make_npz(1, more=np.array(1)),
    ],
    ids=["broadcast", "shape", "dtype", "names"],
)
def test_a_file_that_differs_from_the_batch_replaces_none(other: bytes) -> None:
    refused = []
    for seed in range(8):
        loader = make([FILES[0], b"no archive", other, other], 2, on_error="refill", seed=seed)
        first = next(iter(loader))
        assert first.index.tolist() == [0, 0]
        assert (first.data.dtype, first.data.tolist()) == (np.float32, np.zeros((2, 3, 4)).tolist())
        refused += [failure.index for failure in loader.failures if "those of the batch" in failure.reason]
    assert {*refused} == {2, 3}


def test_two_arrays_for_one_field_are_an_error() -> None:
    files = [make_npz(number, data=np.array(number)) for number in range(2)]
    with pytest.raises(ValueError, match=r"array 'data' as well as 'image'.* pass data='data'"):
        list(make(files))
    (batch,) = make(files, data="data")
    assert batch.data.tolist() == [0, 1]
    assert batch.image.shape == (2, 3, 4)
    with pytest.raises(ValueError, match="array 'label' as well as 'weight'"):
        list(make(FILES, label="weight"))


def test_any_two_cuts_lose_nothing() -> None:
    def make_loader(batch_size: int, rank: int, world_size: int) -> ArrayLoader:
        return make(FILES, batch_size, shuffle=True, num_threads=1, rank=rank, world_size=world_size)

    assert_resumes_exactly(make_loader, world=(1, 3), batch=(1, 2), items=lambda batch: batch.index.tolist())


OTHERS: dict[str, tuple[Any, Any]] = {
    "bytes": (FILES, [make_npz(number + 10) for number in range(9)]),
    "paths": ([f"a/{number}.npz" for number in range(9)], [f"b/{number}.npz" for number in range(9)]),
    "order": ([f"a/{number}.npz" for number in range(9)], [f"a/{8 - number}.npz" for number in range(9)]),
    "Paths": ([Path(f"{number}.npz") for number in range(9)], [Path(f"{number + 1}.npz") for number in range(9)]),
    "labels": ([("a.npz", number) for number in range(9)], [("a.npz", 8 - number) for number in range(9)]),
    "records": ([{"file": "a", "label": number} for number in range(9)], [{"file": "a", "label": 0}] * 9),
    "tuple": (tuple(FILES), tuple(FILES[::-1])),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_a_state_of_another_list_is_refused(name: str) -> None:
    ours, theirs = OTHERS[name]
    state = make(ours).state_dict()
    with pytest.raises(ValueError, match="belongs to another dataset"):
        make(theirs).load_state_dict(state)
    make(type(ours)(list(ours))).load_state_dict(state)


@pytest.mark.parametrize(("options", "error"), [({"data": 3}, TypeError), ({"label": 3}, TypeError)])
def test_mistakes_are_explained(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"`(data|label)` must be a str"):
        make(FILES, **options)


@pytest.mark.parametrize("name", ["path", "index", "epoch", "failures", "fields", "to", "count"])
def test_an_array_by_a_name_of_the_batch_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"rename '{name}'"):
        next(iter(make([make_npz(number, (3, 4), **{name: np.array(1)}) for number in range(2)])))


def savez(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize("dtype", [">i2", ">u4", ">i8", ">f2", ">f8", ">c16"])
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_numbers_in_another_order_of_bytes_are_the_same_numbers(dtype: str, output: Any) -> None:
    arrays = [np.arange(number, number + 6, dtype=dtype).reshape(2, 3) for number in range(4)]
    files = [savez(image=array) for array in arrays]
    (batch,) = make(files, label=None, output=output)
    assert str(batch.data.dtype).rpartition(".")[2] == np.dtype(dtype).newbyteorder("=").name
    assert batch.data.tolist() == np.stack(arrays).tolist()
    # Others of the batch are then read by themselves, and their replacements together.
    files[1] = files[1][:60]
    loader = make(files, label=None, output=output, on_error="refill")
    (batch,) = loader
    (failure,) = loader.failures
    assert (failure.index, batch.index.tolist()) == (1, [0, failure.replacement, 2, 3])
    assert batch.data.tolist() == [arrays[index].tolist() for index in batch.index.tolist()]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["cat", "dog"]),
        np.array([b"ab", b"cd"]),
        np.array(["2020-02-29", "2021-01-01"], "M8[D]"),
        np.array([[(1, 2.5)], [(2, 0.5)]], [("a", "i4"), ("b", "f8")]),
    ],
)
def test_arrays_that_no_tensor_holds_are_lists_in_a_batch_of_tensors(values: Any) -> None:
    files = [savez(image=np.zeros(3), more=value) for value in values]
    (tensors,) = make(files, label=None, output="torch")
    (arrays,) = make(files, label=None)
    assert isinstance(tensors.data, torch.Tensor)
    assert isinstance(tensors.more, list)
    for one, other, value in zip(tensors.more, arrays.more, values, strict=True):
        assert one == other == value
    assert arrays.more.dtype == values.dtype


@pytest.mark.parametrize("kind", ["npz", "memory"])
@pytest.mark.parametrize("kinds", [str, str.encode])
def test_texts_of_different_lengths_are_not_failures(kind: str, kinds: Any) -> None:
    texts = [kinds("cat" * number) for number in (1, 0, 3, 2)]
    arrays = [{"image": np.full(3, number), "caption": np.array(text)} for number, text in enumerate(texts)]
    files = [savez(**each) if kind == "npz" else {"file": each} for each in arrays]
    (batch,) = make(files, label=None)
    assert batch.caption.tolist() == texts
    for ragged in (None, {"caption": "list"}):
        (batch,) = make(files, label=None, output="torch", ragged=ragged)
        assert batch.caption == texts
    files[3] = savez(caption=np.array(texts[3]))
    loader = make(files, 2, label=None, on_error="refill")
    for batch in loader:
        assert batch.caption.tolist() == [texts[index] for index in batch.index]
    assert {failure.index for failure in loader.failures} == {3}
