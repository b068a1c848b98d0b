"""Archives that are written, read by numpy and zipfile."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.array.test_npz import KEYS
from tests.io.arrays import Array, any_array, as_npy, same

from spdl.io import load_npz, save_npz

if TYPE_CHECKING:
    from pathlib import Path


def saved(arrays: dict[str, Any], compression: Any = None) -> bytes:
    file = io.BytesIO()
    save_npz(file, arrays, compression=compression)
    return file.getvalue()


@given(st.dictionaries(KEYS, any_array(), max_size=5), st.sampled_from([None, "deflate"]))
def test_numpy_reads_it(arrays: dict[str, Array], compression: Any) -> None:
    data = saved(arrays, compression)
    theirs = np.load(io.BytesIO(data), allow_pickle=False)
    assert list(theirs.files) == list(arrays)
    assert all(same(theirs[key], array) for key, array in arrays.items())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None


@given(st.dictionaries(KEYS, any_array(), max_size=5), st.sampled_from([None, "deflate", "zstd"]))
def test_it_is_read_back(arrays: dict[str, Array], compression: Any) -> None:
    ours = load_npz(saved(arrays, compression), verify=True)
    assert ours.files == list(arrays)
    assert all(same(ours[key], array) for key, array in arrays.items())


def test_zstd_members_are_what_the_format_says() -> None:
    data = saved({"a": np.zeros(1000)}, "zstd")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (member,) = archive.infolist()
    assert (member.compress_type, member.file_size) == (93, 8128)
    assert member.compress_size < 200
    assert data[member.header_offset + 35 :][:4] == b"\x28\xb5\x2f\xfd"


def test_elements_begin_at_multiples_of_64_bytes() -> None:
    arrays = {"a" * length: np.arange(length, dtype=np.uint8) for length in range(1, 70)}
    data = saved(arrays)
    for array in arrays.values():
        assert data.index(as_npy(array)[-array.nbytes - 20 :]) % 64 == (-20) % 64


def test_the_same_arrays_give_the_same_bytes() -> None:
    arrays = {"a": np.arange(5)}
    assert saved(arrays, "deflate") == saved(arrays, "deflate")


def test_many_members_need_zip64() -> None:
    data = saved({str(number): np.uint8(0) for number in range(70_000)})
    assert load_npz(data).files == [str(number) for number in range(70_000)]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.namelist()) == 70_000


def test_a_file_that_only_writes(tmp_path: Path) -> None:
    class Pipe:
        def __init__(self) -> None:
            self.written = b""

        def write(self, data: bytes) -> None:
            self.written += data

    pipe = Pipe()
    save_npz(pipe, {"a": np.arange(3)}, compression="deflate")  # type: ignore[arg-type]
    assert load_npz(pipe.written)["a"].tolist() == [0, 1, 2]


def test_matrices_are_arrays() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1, 2], [3, 4]])
    data = saved({"matrix": matrix, "behind": np.arange(3)})
    assert same(np.load(io.BytesIO(data))["matrix"], np.asarray(matrix))
    assert same(load_npz(data, verify=True)["matrix"], np.asarray(matrix))


def test_an_archive_may_be_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    save_npz(path, {"a": np.arange(100_000), "b": np.ones(3)})
    arrays = load_npz(path)
    save_npz(path, {"b": arrays["b"], "a": arrays["a"][1:]})
    assert arrays["a"].sum() == 4_999_950_000
    assert np.load(path)["a"].tolist() == list(range(1, 100_000))


def test_objects_are_refused_before_anything_is_written() -> None:
    file = io.BytesIO()
    with pytest.raises(TypeError, match=r"`arrays\['b'\]` must be an array without Python objects"):
        save_npz(file, {"a": np.zeros(3), "b": np.array([{}])})
    assert file.getvalue() == b""


@pytest.mark.parametrize(
    ("arrays", "compression", "error", "message"),
    [
        ({"a": [1]}, "gzip", ValueError, "`compression` must be None"),
        ({1: [1]}, None, TypeError, r"`arrays.keys\(\)` must be str, got 1"),
        ({"": [1]}, None, ValueError, "1 to 65531 bytes"),
        ({"a\0": [1]}, None, ValueError, "null character"),
        ({"a" * 65_532: [1]}, None, ValueError, "1 to 65531 bytes"),
    ],
)
def test_wrong_arguments(arrays: Any, compression: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        saved(arrays, compression)


@pytest.mark.skipif("SPDL_TEST_LARGE_FILES" not in os.environ, reason="writes 4 GiB: set SPDL_TEST_LARGE_FILES")
@pytest.mark.timeout(300)
def test_members_beyond_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    large = np.zeros((1 << 32) + 5, np.uint8)
    large[-1] = 7
    save_npz(path, {"large": large, "behind": np.arange(3)})
    ours = load_npz(path)
    assert ours["large"].shape == large.shape
    assert ours["large"][-1] == 7
    assert ours["behind"].tolist() == [0, 1, 2]
    assert np.load(path)["behind"].tolist() == [0, 1, 2]
