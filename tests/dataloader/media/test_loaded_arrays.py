"""`ArrayLoader` loads with any function, and brings arrays of different shapes together by a transform or a layout."""

from __future__ import annotations

import io
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataloader.media.test_array_loader import make_npz

from spdl.dataloader import ArrayLoader, Jagged
from spdl.io import FilesPerThread, LoadError, load_image, save_npy
from spdl.pipeline import ItemContext
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = st.lists(st.tuples(st.integers(0, 4), st.just(3)), min_size=1, max_size=7)
KINDS = ("npz", "npy", "arrays", "load")


def make(source: Any, batch_size: int, **options: Any) -> ArrayLoader:
    return ArrayLoader(source, batch_size, **{"label": None, "output": "numpy", "num_threads": 2, **options})


def volume(number: int, shape: tuple[int, ...]) -> Any:
    return np.arange(number, number + np.prod(shape), dtype=np.int16).reshape(shape)


def make_source(kind: str, arrays: list[Any]) -> list[Any]:
    if kind in ("load", "arrays"):
        return [{"file": {"image": array}} for array in arrays]
    files = []
    for array in arrays:
        file = io.BytesIO()
        save_npy(file, array)
        files.append(file.getvalue() if kind == "npy" else make_npz(0, image=array))
    return files


def options_of(kind: str) -> dict[str, Any]:
    return {"load": lambda file: file["image"]} if kind == "load" else {}


@settings(max_examples=30, deadline=None)
@given(shapes=SHAPES, kind=st.sampled_from(KINDS), output=st.sampled_from(["numpy", "torch"]))
def test_ragged_layouts_have_all_rows(shapes: list[tuple[int, int]], kind: str, output: Any) -> None:
    arrays = [volume(number, shape) for number, shape in enumerate(shapes)]
    source, common = make_source(kind, arrays), {"output": output, **options_of(kind)}
    array_type = np.ndarray if output == "numpy" else torch.Tensor
    lists, pads, offsets = (
        list(make(source, 3, ragged={"data": layout}, **common)) for layout in ("list", "pad", "offsets")
    )
    for number, (listed, padded, joined) in enumerate(zip(lists, pads, offsets, strict=True)):
        own = arrays[3 * number : 3 * number + 3]
        assert type(listed.data) is list
        assert type(joined.data) is Jagged
        for array, each, row, mask in zip(own, listed.data, padded.data, padded.data_mask, strict=True):
            assert isinstance(each, array_type)
            np.testing.assert_array_equal(each, array)
            np.testing.assert_array_equal(row[mask], array)
            assert not np.asarray(row[~mask]).any()
        assert isinstance(padded.data, array_type)
        assert padded.data.shape == (len(own), max(map(len, own)), 3)
        np.testing.assert_array_equal(joined.data.values, np.concatenate(own))
        np.testing.assert_array_equal(joined.data.lengths, [len(array) for array in own])


@settings(max_examples=30, deadline=None)
@given(shapes=SHAPES, kind=st.sampled_from(KINDS), output=st.sampled_from(["numpy", "torch"]))
def test_transform_gets_arrays_before_they_are_stacked(shapes: list[Any], kind: str, output: Any) -> None:
    arrays = [volume(number, shape) for number, shape in enumerate(shapes)]

    def fit(array: Any) -> Any:
        assert isinstance(array, np.ndarray if output == "numpy" else torch.Tensor)
        fitted = torch.zeros((2, 3)) if output == "torch" else np.zeros((2, 3), np.float32)
        fitted[: len(array)] = array[:2]
        return fitted

    batches = list(make(make_source(kind, arrays), 3, output=output, transform=fit, **options_of(kind)))
    found = np.concatenate([batch.data for batch in batches])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [np.concatenate([array, np.zeros((2, 3))])[:2] for array in arrays])


def test_transform_may_get_arrays_of_several_dtypes_and_of_no_dimension() -> None:
    arrays = [np.int16(3), np.float64(2.5), np.array([[1, 2]], np.uint8)]
    for output in ("numpy", "torch"):
        (batch,) = make(arrays, 3, load=lambda file: file, output=output, transform=lambda it: float(it.sum()))
        assert batch.data.tolist() == [3, 2.5, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_transform_of_arrays_that_still_differ_is_an_error(kind: str, output: Any) -> None:
    source = make_source(kind, [volume(0, (2, 3)), volume(0, (2, 3)), volume(0, (1, 3))])
    common = {"output": output, **options_of(kind)}
    with pytest.raises(
        ValueError, match=r"returned int16 \(1, 3\) for sample 2, None, and int16 \(2, 3\) for sample 0"
    ):
        next(iter(make(source, 3, transform=lambda it: it, **common)))
    with pytest.raises(ValueError, match=r"float\d+ \(2, 3\) for sample 1, None, and int16 \(2, 3\)"):
        next(iter(make(source[:2], 2, transform=_halve_second(), **common)))
    (batch,) = make(source, 3, transform=lambda it: it + 1, ragged={"data": "offsets"}, **common)
    assert batch.data.lengths.tolist() == [2, 2, 1]
    with pytest.raises(LoadError, match="1 of 3 files of a batch could not be loaded\n  sample 2"):
        next(iter(make(source, 3, **common)))


def _halve_second() -> Any:
    seen: list[Any] = []

    def halve(array: Any) -> Any:
        seen.append(array)
        return array / 2 if len(seen) == 2 else array

    return halve


def test_transform_of_arrays_may_return_records() -> None:
    arrays = [volume(number, (2 + number, 3)) for number in range(3)]
    for output in ("numpy", "torch"):
        (batch,) = make(
            make_source("arrays", arrays), 3, output=output, transform=lambda it: {"top": it[:2], "rows": len(it)}
        )
        np.testing.assert_array_equal(batch.data["top"], [array[:2] for array in arrays])
        assert batch.data["rows"].tolist() == [2, 3, 4]
        with pytest.raises(ValueError, match="`transform` returned int16"):
            next(iter(make(make_source("arrays", arrays), 3, output=output, transform=lambda it: (it, 1))))
        loader = make(make_source("arrays", arrays), 3, ragged={"data": "list"}, transform=lambda it: (it,))
        with pytest.raises(TypeError, match="`transform` must be a function that returns an array, since `ragged`"):
            next(iter(loader))


def test_ragged_fields_beside_the_data() -> None:
    source = [make_npz(number, points=np.ones((number, 2), np.float32)) for number in range(4)]
    (batch,) = make(source, 4, ragged={"points": "pad"}, label="label")
    assert batch.data.shape == (4, 3, 4)
    assert batch.points_mask.sum(1).tolist() == [0, 1, 2, 3]
    with pytest.raises(LoadError, match="3 of 4 files"):
        next(iter(make(source, 4)))


WRONG: list[tuple[Any, type[Exception], str]] = [
    ("pad", TypeError, "`ragged` must be layouts by names of fields"),
    ({"data": "rows"}, ValueError, r"`ragged\['data'\]` must be"),
    ({"points": "pad"}, ValueError, "`ragged` must be names of fields of the batch: 'image', .*got 'points'"),
    ({"path": "list"}, TypeError, "`ragged` must be names of fields that are arrays, and 'path' has others"),
    ({"label": "pad"}, TypeError, "at least one dimension"),
]


@pytest.mark.parametrize(("ragged", "error", "message"), WRONG)
def test_ragged_that_makes_no_sense_is_refused(ragged: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("'image'", "'data'")):
        next(iter(make([make_npz(1), make_npz(2)], 2, ragged=ragged, label="label")))


def test_load_returns_data_or_arrays_by_their_names() -> None:
    def load(number: int) -> Any:
        return {"image": torch.full((2,), number), "label": number % 3, "weight": 0.5, "big": np.array([number], ">i4")}

    (batch,) = make(range(5), 5, load=load, output="torch", label="label")
    data, labels = batch
    assert data.tolist() == [[number] * 2 for number in range(5)]
    assert (labels.dtype, labels.tolist()) == (torch.int64, [0, 1, 2, 0, 1])
    assert (batch.weight.dtype, batch.big.dtype, batch.big.ravel().tolist()) == (
        torch.float64,
        torch.int32,
        [*range(5)],
    )
    source = [{"file": ("volume", number), "label": number} for number in range(5)]
    (batch,) = make(source, 5, load=lambda file: np.full(2, file[1]))
    assert batch.label.tolist() == batch.data[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_load_of_read_only_memory_gives_writable_arrays() -> None:
    loader = make(range(2), 2, load=lambda _: np.frombuffer(b"abcd", np.uint8), output="torch", ragged={"data": "list"})
    for row in next(iter(loader)).data:
        assert row.add_(1).tolist() == [98, 99, 100, 101]


def test_load_gets_the_key_of_the_sample() -> None:
    def crop(file: Any, context: ItemContext) -> Any:
        first = context.key(7) % 10
        return file[first : first + 4]

    source = [{"file": np.arange(100 * number, 100 * number + 20)} for number in range(6)]
    for epoch, seen in enumerate([list(loader) for loader in [make(source, 6, load=crop, shuffle=True)] for _ in "ab"]):
        ((batch,),) = (seen,)
        starts = [ItemContext(epoch, 0, index).key(7) % 10 for index in batch.index.tolist()]
        assert (batch.data[:, 0] - 100 * batch.index).tolist() == starts


@pytest.mark.parametrize("result", [None, [1, 2], "text", np.array([object()]), {"image": [1]}])
def test_load_that_returns_no_array_is_an_error(result: Any) -> None:
    kinds = r"(NoneType|list|str|object \(1,\))"
    with pytest.raises(TypeError, match=rf"`load` returned {kinds} for 'image'.*array or a tensor"):
        next(iter(make(range(3), 2, load=lambda _: result, on_error="skip")))


@pytest.mark.parametrize("array", [np.array(["a"]), np.array(["2020"], "M8[Y]"), np.ones(1, np.longdouble)])
def test_load_that_returns_what_no_tensor_holds_is_an_error(array: Any) -> None:
    def load(_: Any) -> Any:
        return array

    with pytest.raises(TypeError, match=r"`load` returned .* \(1,\) for 'image': it must return an array") as raised:
        next(iter(make(range(3), 3, load=load, output="torch")))
    assert "sample 0" in str(raised.value.__notes__)
    assert next(iter(make(range(3), 3, load=load))).data.dtype == array.dtype


def test_load_that_returns_a_tensor_of_a_type_that_numpy_lacks_is_an_error() -> None:
    message = r"`load` returned Tensor of torch.bfloat16 for 'image': .*tensor\.float\(\) makes one"
    with pytest.raises(TypeError, match=message):
        next(iter(make(range(3), 3, load=lambda _: torch.ones(2, dtype=torch.bfloat16))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", range(4))
def test_the_array_that_differs_from_most_of_a_batch_fails(odd: int, kind: str) -> None:
    source = make_source(kind, [volume(number, (3 if number == odd else 2, 2)) for number in range(4)])
    loader = make(source, 4, on_error="skip", **options_of(kind))
    (batch,) = loader
    assert batch.index.tolist() == [number for number in range(4) if number != odd]
    ((failed, reason),) = ((failure.index, failure.reason) for failure in loader.failures)
    assert failed == odd
    assert "its arrays are {'image': ('int16', (3, 2))" in reason
    assert "those of most others in the batch {'image': ('int16', (2, 2))" in reason
    refilled = make(source, 4, on_error="refill", **options_of(kind))
    (batch,) = refilled
    assert np.delete(batch.index, odd).tolist() == np.delete(range(4), odd).tolist()
    assert batch.data.shape == (4, 2, 2)


def test_ragged_offsets_never_change_the_dtype() -> None:
    big = 2**60 + 1
    source = [{"file": {"image": array}} for array in (np.array([big]), np.zeros(0), np.array([7]))]
    (batch,) = make(source, 3, load=lambda file: file["image"], ragged={"data": "offsets"})
    assert (batch.data.values.dtype, batch.data.values.tolist()) == (np.int64, [big, 7])
    source[1] = {"file": {"image": np.array([0.5])}}
    for layout in ("offsets", "pad"):
        with pytest.raises(TypeError, match="arrays of one dtype") as raised:
            next(iter(make(source, 3, load=lambda file: file["image"], ragged={"data": layout})))
        assert "'data' of the samples" in str(raised.value.__notes__)


def refuse_third(number: int) -> Any:
    if number == 2:
        raise RuntimeError("it is damaged")
    return np.full((2,), number)


def test_load_that_raises_is_a_failure_of_its_sample() -> None:
    with pytest.raises(RuntimeError, match="it is damaged") as raised:
        list(make(range(6), 3, load=refuse_third))
    assert any("calling `load` for sample 2, 2" in note for note in raised.value.__notes__)
    assert [batch.index.tolist() for batch in make(range(6), 3, load=refuse_third, on_error="skip")] == [
        [0, 1],
        [3, 4, 5],
    ]
    loader = make(range(6), 3, load=refuse_third, on_error="refill")
    first, _ = loader
    (failure,) = loader.failures
    assert (failure.index, failure.reason) == (2, "RuntimeError: it is damaged")
    assert first.data[:, 0].tolist() == [0, 1, failure.replacement]

    def run_out(_: int) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        list(make(range(6), 3, load=run_out, on_error="skip"))
    with pytest.raises(TypeError, match="`load` must be a function"):
        make(range(6), 3, load="h5py")


def test_load_and_transform_resume_at_every_cut() -> None:
    def load(number: int, context: ItemContext) -> Any:
        refuse_third(number)
        return np.full((1 + context.key(1) % 3, 2), number)

    def make_loader(batch_size: int, rank: int, world_size: int) -> ArrayLoader:
        return make(
            range(5),
            batch_size,
            load=load,
            transform=lambda it: np.concatenate([it, it[:1]]),
            ragged={"data": "list"},
            on_error="refill",
            shuffle=True,
            rank=rank,
            world_size=world_size,
        )

    assert_resumes_exactly(make_loader, batch=(2,), items=lambda batch: [row.tobytes() for row in batch.data])


def test_load_reads_pages_of_tiffs(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    pages = [image_module.new("L", (5, 4), level) for level in (10, 20, 30)]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    source = [{"file": (tmp_path / "stack.tif", page)} for page in (2, 0)]

    def load(file: Any) -> Any:
        return np.asarray(load_image(file[0], pages=file[1], filter_desc=None))

    (batch,) = make(source, 2, load=load)
    assert batch.data[:, 0, 0].ravel().tolist() == [30, 10]


class Opened:
    """A file that knows who opened it, and whether it is open."""

    every: list[Opened]

    def __init__(self, path: Any) -> None:
        self.path, self.thread, self.is_open = path, threading.get_ident(), True
        self.every.append(self)

    def close(self) -> None:
        assert self.is_open
        self.is_open = False


@pytest.fixture
def opened() -> type[Opened]:
    return type("Fresh", (Opened,), {"every": []})


def test_files_per_thread_are_opened_once_by_each_and_closed_with_the_loop(opened: Any) -> None:
    files = FilesPerThread(opened)
    alone = threading.local()

    def load(number: int) -> Any:
        file = files(number % 3)
        assert file.is_open
        assert file.thread == threading.get_ident()
        alone.seen = getattr(alone, "seen", {})
        assert alone.seen.setdefault(number % 3, file) is file
        return np.array([number])

    for epoch in range(2):
        batches = list(make(range(60), 4, load=load, num_threads=4))
        assert np.concatenate([batch.data for batch in batches]).ravel().tolist() == list(range(60))
        pairs = [(file.thread, file.path) for file in opened.every]
        assert epoch or len(set(pairs)) == len(pairs)
        assert not any(file.is_open for file in opened.every)


def test_files_per_thread_keeps_the_last_ones(opened: Any) -> None:
    files = FilesPerThread(opened, most=2)
    one = files("1")
    assert files("1") is one
    files("2")
    assert files("1") is one
    files("3")
    assert [(file.path, file.is_open) for file in opened.every] == [("1", True), ("2", False), ("3", True)]
    files.close()
    assert not any(file.is_open for file in opened.every)
    assert files("1").is_open
    del files
    assert not any(file.is_open for file in opened.every)


def test_files_per_thread_closes_all_even_if_one_cannot_be_closed(opened: Any) -> None:
    class Broken(opened):  # type: ignore[misc] # It is made by the fixture.
        def close(self) -> None:
            super().close()
            if self.path == "1":
                raise OSError("it cannot be written back")

    files = FilesPerThread(Broken)
    for path in "123":
        files(path)
    with pytest.raises(OSError, match="written back"):
        files.close()
    assert not any(file.is_open for file in opened.every)


def test_files_per_thread_of_a_copy_are_its_own(opened: Any) -> None:
    import copy  # noqa: PLC0415 - here alone.

    files = FilesPerThread(opened, most=1)
    one = files("1")
    other = copy.deepcopy(files)
    assert other("1") is not one
    other("2")
    assert one.is_open


def test_files_per_thread_takes_any_library(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        for number in range(20):
            archive.writestr(str(number), np.full(3, number).tobytes())
    files = FilesPerThread(zipfile.ZipFile)

    def load(file: Any) -> Any:
        return np.frombuffer(files(file[0]).read(str(file[1])), np.int64)

    source = [{"file": (tmp_path / "rows.zip", number)} for number in range(20)]
    assert [batch.data[:, 0].tolist() for batch in make(source, 10, load=load, num_threads=4)] == [
        list(range(10)),
        list(range(10, 20)),
    ]


@pytest.mark.parametrize(("arguments", "error"), [(("open",), TypeError), ((zipfile.ZipFile, 0), ValueError)])
def test_files_per_thread_checks_its_arguments(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"`(open|most)` must be"):
        FilesPerThread(arguments[0], **({"most": arguments[1]} if len(arguments) > 1 else {}))
