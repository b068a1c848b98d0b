"""Arrays in .npy files: numpy writes and reads the other side."""

from __future__ import annotations

import gc
import io
import sys
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.arrays import Array, any_array, as_npy, same

from spdl.io import FormatError, load_npy, save_npy

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
NPY = as_npy(ARRAY)


@given(any_array(), st.sampled_from([None, (2, 0), (3, 0)]))
def test_reads_what_numpy_writes(array: Array, version: tuple[int, int] | None) -> None:
    if version == (2, 0) and not str(array.dtype.descr).isascii():
        version = None
    data = as_npy(array, version)
    theirs = np.load(io.BytesIO(data), allow_pickle=False)
    ours = load_npy(data)
    assert same(ours, theirs)
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous
    assert ours.flags.c_contiguous == theirs.flags.c_contiguous


@given(any_array())
def test_numpy_reads_what_is_written(array: Array) -> None:
    file = io.BytesIO()
    save_npy(file, array)
    theirs = np.load(io.BytesIO(file.getvalue()), allow_pickle=False)
    assert same(theirs, array)
    assert same(load_npy(file.getvalue()), theirs)


@given(any_array())
def test_headers_are_those_that_numpy_writes(array: Array) -> None:
    file = io.BytesIO()
    save_npy(file, array)
    ours, theirs = file.getvalue(), as_npy(array)
    # numpy leaves room for the first side to grow, so only the padding may differ.
    assert ours[:8] == theirs[:8]
    assert len(ours) % 64 == (array.nbytes % 64)
    assert ours[10:].split(b"}")[0] == theirs[10:].split(b"}")[0]


def test_views_the_bytes() -> None:
    array = load_npy(NPY)
    assert id(array.base) == id(NPY)
    assert not array.flags.writeable
    assert same(array, ARRAY)


@pytest.mark.parametrize(
    "kind", [bytearray, lambda data: memoryview(bytearray(data)), lambda data: np.array(list(data), "u1")]
)
def test_is_writable_where_the_input_is(kind: Any) -> None:
    content = kind(NPY)
    array = load_npy(content)
    array[0, 0, 0] = 42
    assert load_npy(content)[0, 0, 0] == 42


def test_a_resize_of_the_input_is_refused_while_a_view_lives() -> None:
    content = bytearray(NPY)
    array = load_npy(content)
    with pytest.raises(BufferError):
        content.clear()
    assert array[1, 2, 3] == 23
    del array
    content.clear()


def test_keeps_the_input_alive() -> None:
    class Input(bytearray):
        pass

    content = Input(NPY)
    gone = weakref.ref(content)
    array = load_npy(content)
    del content
    gc.collect()
    assert gone() is not None
    assert same(array, ARRAY)
    del array
    assert gone() is None


def test_a_copy_owns_its_memory() -> None:
    array = load_npy(NPY, copy=True)
    assert array.flags.owndata
    assert array.flags.writeable
    assert load_npy(as_npy(np.asfortranarray(ARRAY)), copy=True).flags.f_contiguous
    assert same(array, ARRAY)


@pytest.mark.parametrize("kind", [str, Path])
def test_maps_a_path(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "array.npy"
    save_npy(kind(path), ARRAY)
    array = load_npy(kind(path))
    assert same(array, ARRAY)
    assert not array.flags.writeable
    path.unlink()
    assert same(array, ARRAY)


def test_what_cannot_be_opened_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_npy(tmp_path / "none.npy")


def test_an_empty_file_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "empty.npy"
    path.touch()
    with pytest.raises(FormatError, match="the 0 bytes do not begin with the magic"):
        load_npy(path)


def test_a_second_array_behind_it_is_left_alone() -> None:
    assert same(load_npy(NPY + NPY), ARRAY)


def test_reads_headers_of_python_2() -> None:
    data = NPY.replace(b"(2, 3, 4), }   ", b"(2L, 3L, 4L), }")
    assert len(data) == len(NPY)
    assert same(load_npy(data), ARRAY)


def test_an_element_at_an_odd_place_is_read() -> None:
    array = load_npy(memoryview(b"x" + NPY)[1:])
    assert not array.flags.aligned
    assert same(array, ARRAY)
    assert array.sum() == ARRAY.sum()


@pytest.mark.parametrize("array", [np.array([{}, None]), np.array([(1, "x")], dtype=[("a", int), ("b", object)])])
def test_objects_are_refused_and_not_unpickled(array: Array) -> None:
    with pytest.raises(FormatError, match=r"Python objects.*any code"):
        load_npy(as_npy(array))
    file = io.BytesIO()
    with pytest.raises(TypeError, match="`array` must be an array without Python objects"):
        save_npy(file, array)
    assert file.getvalue() == b""


def test_errors_are_those_of_the_reference_too() -> None:
    with pytest.raises(ValueError, match="not npy data"):
        load_npy(b"")
    with pytest.raises(RuntimeError, match="not npy data"):
        load_npy(b"")


def test_a_truncated_file_is_refused() -> None:
    for size in range(len(NPY)):
        with pytest.raises(FormatError, match=r"truncated|not npy data|and there are"):
            load_npy(NPY[:size])


def header(text: str, version: int = 1) -> bytes:
    width = 2 if version == 1 else 4
    encoded = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(encoded).to_bytes(width, "little") + encoded


def described(descr: str = "'<f4'", order: str = "False", shape: str = "(2, 3)") -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}") + bytes(24)


def test_the_header_of_the_cases_below_is_sound() -> None:
    assert load_npy(described()).shape == (2, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x93NUMPX" + NPY[6:], "do not begin with the magic"),
        (b"\x93NUMPY\x04\x00" + NPY[8:], "version 4.0; versions 1.0, 2.0 and 3.0"),
        (b"\x93NUMPY\x01\x01" + NPY[8:], "version 1.1"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + NPY[12:], "header goes up to byte 4294967307"),
        (header(" " * (1 << 21), 2), "more than the 1048576 that are accepted"),
        (header(""), "lacks '{' at byte 10"),
        (header("[]"), "lacks '{' at byte 10"),
        (header("{'descr': '<f4'}"), "lacks one of 'descr', 'fortran_order' and 'shape'"),
        (described(shape="(2, -3)"), "lacks a side, a whole number that is not negative, at byte"),
        (described(shape="(2, 3.0)"), r"lacks ',' or '\)'"),
        (described(shape="(2)"), "lacks ',' at byte"),
        (described(shape="[2, 3]"), r"lacks '\('"),
        (described(shape="(2, 3"), r"lacks"),
        (described(shape="(4294967296, 4294967296, 4294967296)"), "product is more than any memory"),
        (described(shape="(99999999999999999999,)"), "a side that no memory could hold"),
        (described(shape="(4611686018427387904,)"), "4611686018427387904 elements of 4 bytes, more than any memory"),
        (described(shape="(" + "1," * 65 + ")"), "more than 64 sides"),
        (described(shape="(2, 4)"), "32 bytes of elements begin at byte .*, and there are 24"),
        (described(shape="(1000000,)"), "truncated"),
        (described(order="1"), "lacks True or False"),
        (described(order="None"), "lacks True or False"),
        (described(descr="3"), "lacks a string"),
        (described(descr="'<q9'"), "numpy does not accept"),
        (described(descr="'<f4,<f4'"), "which is not a type that numpy writes"),
        (described(descr="'O'"), "Python objects"),
        (described(descr="'|O8'"), "Python objects"),
        (described(descr="[('a', '|O')]"), "Python objects"),
        (described(descr="[('a', [('b', 'O')])]"), "Python objects"),
        (described(descr="[('a', '<f4'), ('a', '<f4')]"), "numpy does not accept"),
        (described(descr="[1, 2]"), "numpy does not accept"),
        (described(descr="[__import__('os')]"), "a list that cannot be read"),
        (described(descr="[('a', '<f4'"), "a list without an end"),
        (described(descr="[" * 40 + "]" * 40), "too deeply"),
        (described(descr="['" + "\\"), "without an end"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x") + bytes(4), "goes on after"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\0") + bytes(4), "goes on after"),
        (header("{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }") + bytes(4), "unknown or there twice"),
        (header("{'descr': '<f4', 'nope': 1, 'shape': (1,), }") + bytes(4), "unknown or there twice"),
    ],
)
def test_a_damaged_header_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_npy(data)


@given(st.data())
def test_damage_is_an_error_or_another_array(data: st.DataObject) -> None:
    """Whatever bytes are changed, the outcome is that of numpy, or an error."""
    spoilt = bytearray(NPY)
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    try:
        ours = load_npy(spoilt)
    except FormatError:
        return
    theirs = np.load(io.BytesIO(spoilt), allow_pickle=False)
    assert same(ours, theirs)


def test_a_side_of_nothing_leaves_the_others() -> None:
    assert load_npy(described(shape="(0, 65536)")[:-24]).shape == (0, 65536)
    with pytest.raises(FormatError, match="numpy refuses: array is too big"):
        load_npy(described(shape="(0, 4611686018427387904)")[:-24])


@pytest.mark.parametrize("dtype", ["S0", "<U0", ">U0", "V0", [], [("a", "S0")]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_of_no_length_are_read(dtype: Any, order: Literal["C", "F"]) -> None:
    array: Array = np.ndarray((2, 3), dtype, order=order)
    data = as_npy(array)
    assert same(np.load(io.BytesIO(data)), array)
    assert same(load_npy(data), array)
    assert same(load_npy(data, copy=True), array)


def test_elements_of_no_length_take_no_memory() -> None:
    array = load_npy(described(descr="'|S0'", shape="(1099511627776,)"))
    assert array.shape == (1 << 40,)
    assert array.nbytes == 0


@pytest.mark.parametrize(
    "data", [3, None, [NPY], io.BytesIO(NPY), np.zeros((2, 2), "u1"), np.zeros(3), np.zeros(8, "u1")[::2]]
)
def test_what_holds_no_bytes_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="`data` must be"):
        load_npy(data)


def test_tensors_are_read_in_place() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.frombuffer(bytearray(NPY), dtype=torch.uint8)
    array = load_npy(tensor)
    array[0, 0, 0] = 7
    assert load_npy(tensor)[0, 0, 0] == 7


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(b"bad")
    with pytest.raises(FormatError, match=r"^'.*/bad\.npy': this is not npy data: the 3 bytes"):
        load_npy(path)


def test_threads_read_types_with_fields_at_once() -> None:
    # Before Python 3.11.8, `ast` fails if another thread gets the GIL while it parses, as a
    # collection may have it do.
    # Types that were read before are known, so each file has one of its own.
    arrays = [np.zeros(1, dtype=[(f"field_{number}_{field}", "<i4") for field in range(40)]) for number in range(200)]
    files = [as_npy(array) for array in arrays]
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()

    def hand_over(*_: object) -> None:
        time.sleep(0)

    def read(file: bytes, array: Array) -> bool:
        return same(load_npy(file), array)

    gc.callbacks.append(hand_over)
    try:
        gc.set_threshold(50)
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(read, files, arrays))
    finally:
        gc.callbacks.remove(hand_over)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)


def test_types_with_many_fields_are_not_kept() -> None:
    """Else a dataset of such headers would fill the memory."""
    few, many = (as_npy(np.zeros(1, [(f"f{number}", "u1") for number in range(count)])) for count in (10, 1000))
    assert load_npy(few).dtype is load_npy(few).dtype
    assert load_npy(many).dtype is not load_npy(many).dtype
    assert load_npy(many).dtype == load_npy(many).dtype


def test_matrices_are_arrays() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1, 2], [3, 4]])
    file = io.BytesIO()
    save_npy(file, matrix)
    assert same(np.load(io.BytesIO(file.getvalue())), np.asarray(matrix))


def test_a_path_is_written_as_it_is(tmp_path: Path) -> None:
    save_npy(tmp_path / "array", ARRAY)
    assert [path.name for path in tmp_path.iterdir()] == ["array"]
    assert same(np.load(tmp_path / "array"), ARRAY)


def test_long_headers_have_another_version() -> None:
    array = np.zeros(2, dtype=[(f"field_{number:04}", "<f4") for number in range(3000)])
    file = io.BytesIO()
    save_npy(file, array)
    assert file.getvalue()[6] == 2
    assert same(load_npy(file.getvalue()), array)


def test_names_beyond_latin_1_have_another_version() -> None:
    array = np.zeros(2, dtype=[("ж", "<f4")])
    file = io.BytesIO()
    save_npy(file, array)
    assert file.getvalue()[6] == 3
    assert same(load_npy(file.getvalue()), array)
    assert same(load_npy(as_npy(array)), array)
