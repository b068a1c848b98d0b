"""Batches of archives, against the archives one by one."""

from __future__ import annotations

import threading
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.array.test_npz import deflated, stored
from tests.io.array.test_npz_save import saved
from tests.io.arrays import Array, any_array, as_npy, same
from tests.io.pairs import pairs
from tests.io.zips import Entry, as_npz, handmade

from spdl.io import FormatError, load_npz, load_npz_batch, save_npz

if TYPE_CHECKING:
    from pathlib import Path

RANDOM = np.random.default_rng(3)


def sample(number: int) -> dict[str, Array]:
    return {
        "image": np.full((3, 20, 10), number, np.uint8),
        "label": np.array(number, ">i4"),
        "grid": np.asfortranarray(RANDOM.random((4, 5))),
    }


@pytest.mark.parametrize(
    ("threads", "compression", "count"), pairs([1, 2, 3, 16], [None, "deflate", "zstd"], [1, 2, 33])
)
def test_stacks_the_arrays(threads: int, compression: Any, count: int) -> None:
    samples = [sample(number) for number in range(count)]
    batch = load_npz_batch([saved(it, compression) for it in samples], num_threads=threads)
    assert list(batch) == ["image", "label", "grid"]
    for key, array in batch.items():
        assert same(array, np.stack([it[key] for it in samples]).astype(samples[0][key].dtype))
        assert array.flags.writeable
        assert array.__array_interface__["data"][0] % 64 == 0
    assert batch["grid"][0].flags.f_contiguous


@given(any_array(), st.lists(st.sampled_from([None, "deflate", "zstd"]), min_size=1, max_size=9), st.integers(1, 3))
def test_each_row_is_what_is_loaded_alone(array: Array, compressions: list[Any], threads: int) -> None:
    inputs = [saved({"a": array}, compression) for compression in compressions]
    batch = load_npz_batch(inputs, num_threads=threads, verify=True)
    assert batch["a"].shape == (len(inputs), *array.shape)
    for index, content in enumerate(inputs):
        assert same(batch["a"][index, ...], load_npz(content)["a"])


def test_headers_of_any_length() -> None:
    """The header that is inflated with a row overwrites rows before it, which are filled later: at any length."""

    def padded(number: int, padding: int) -> Entry:
        text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }" + b" " * padding
        content = b"\x93NUMPY\2\0" + len(text).to_bytes(4, "little") + text + bytes([number] * 5)
        return deflated(content=content)

    paddings = RANDOM.choice([0, 7, 100, 5000, 30_000], 64)
    inputs = [handmade(padded(number, int(padding))) for number, padding in enumerate(paddings)]
    for threads in 1, 2, 5:
        batch = load_npz_batch(inputs, num_threads=threads)
        assert (batch["a"] == np.arange(64)[:, None]).all()


def test_paths_and_arrays(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    save_npz(path, {"a": np.arange(3)})
    batch = load_npz_batch([path, str(path), path.read_bytes(), np.frombuffer(path.read_bytes(), np.uint8)])
    assert batch["a"].tolist() == [[0, 1, 2]] * 4


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(handmade(stored(content=b"bad")))
    with pytest.raises(
        FormatError, match=r"""^'.*/bad\.npz': srcs\[1\], member "a\.npy" at byte \d+: this is not npy data"""
    ):
        load_npz_batch([handmade(stored()), path])


def test_names_with_and_without_the_suffix() -> None:
    members = [stored(b"a", as_npy(np.arange(3))), stored(b"a.npy", as_npy(np.arange(5)))]
    for order in members, members[::-1]:
        batch = load_npz_batch([handmade(*order)] * 2)
        assert {key: array.shape for key, array in batch.items()} == {"a": (2, 3), "a.npy": (2, 5)}


def test_elements_of_no_length() -> None:
    array: Array = np.ndarray((2, 3), "S0")
    batch = load_npz_batch([saved({"a": array}), saved({"a": array}, "deflate")])
    assert same(batch["a"], np.ndarray((2, 2, 3), "S0"))


def test_the_order_of_members_does_not_matter() -> None:
    one, other = as_npz({"a": np.zeros(2), "b": np.ones(3)}), as_npz({"b": np.ones(3), "a": np.zeros(2)})
    batch = load_npz_batch([one, other])
    assert batch["a"].tolist() == [[0, 0]] * 2
    assert batch["b"].tolist() == [[1, 1, 1]] * 2


GOOD = as_npz({"a": np.zeros((2, 3), "<f4")}, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (b"", r"^srcs\[2\]: this is not a zip archive"),
        (as_npz({}), r'^srcs\[2\] lacks the member "a\.npy" that srcs\[0\] has'),
        (
            as_npz({"a": np.zeros((2, 3), "<f4"), "b": np.zeros(1)}),
            r'^srcs\[2\] has a member "b\.npy", which srcs\[0\] lacks',
        ),
        (
            as_npz({"a": np.zeros((3, 2), "<f4")}),
            r'^srcs\[2\], member "a\.npy" at byte \d+: it is an array of "<f4" \(3,2,\), but',
        ),
        (as_npz({"a": np.zeros((2, 3), "<i4")}), r'of "<i4" \(2,3,\), but that of srcs\[0\] is of "<f4" \(2,3,\)'),
        (as_npz({"a": np.zeros((2, 4), "<f4")}, zipfile.ZIP_DEFLATED), r"\(2,4,\), but"),
        (as_npz({"a": np.zeros((2, 3), "<f4", order="F")}), r"in Fortran order, but"),
        (handmade(deflated(crc=1)), r'^srcs\[2\], member "a\.npy" at byte \d+: .*checksum'),
        (
            handmade(deflated(content=b"nothing")),
            r'^srcs\[2\], member "a\.npy" at byte \d+: (this is not npy data|its )',
        ),
        (handmade(deflated(size=(1 << 32) - 2)), r"^srcs\[2\]: the compressed members .* inflate to 4294967294"),
        (handmade(deflated(size=1 << 29)), r'^srcs\[2\], member "a\.npy" at byte \d+: .*cannot inflate'),
        (handmade(stored(content=b"")), r'^srcs\[2\], member "a\.npy" at byte \d+: this is not npy data'),
    ],
)
def test_an_archive_that_does_not_fit_is_named(other: bytes, message: str, threads: int) -> None:
    with pytest.raises(FormatError, match=message):
        load_npz_batch([GOOD, GOOD, other, GOOD], num_threads=threads)


def test_the_first_archive_is_named_too() -> None:
    with pytest.raises(FormatError, match=r'^srcs\[0\], member "a\.npy" at byte \d+: this is not npy data'):
        load_npz_batch([handmade(deflated(content=b"nothing"))])
    with pytest.raises(FormatError, match=r'^srcs\[0\], member "a\.npy" at byte \d+: .*Python objects'):
        load_npz_batch(
            [
                handmade(
                    stored(
                        content=b"\x93NUMPY\1\0\x40\0{'descr': 'O', 'fortran_order': False, 'shape': (), }".ljust(74)
                    )
                )
            ]
        )


def test_stored_members_are_verified_on_request() -> None:
    content = handmade(stored(crc=1))
    assert load_npz_batch([content])["a"].shape == (1, 3, 4, 4)
    with pytest.raises(FormatError, match="checksum"):
        load_npz_batch([content], verify=True)


@pytest.mark.parametrize(
    ("srcs", "options", "error", "message"),
    [
        ([], {}, ValueError, "`srcs` must be at least one input"),
        (GOOD, {}, TypeError, "For a batch of one, pass a list"),
        ("path", {}, TypeError, "For a batch of one, pass a list"),
        (3, {}, TypeError, "must be an iterable of inputs, got 3"),
        ([GOOD, 3], {}, TypeError, r"`srcs\[1\]` must be a path"),
        ([GOOD], {"num_threads": 0}, ValueError, "`num_threads` must be an int from 1 to 1024, got 0"),
        ([GOOD], {"num_threads": 1.5}, TypeError, "`num_threads` must be an int from 1 to 1024, got 1.5"),
    ],
)
def test_wrong_arguments(srcs: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_npz_batch(srcs, **options)


def test_other_threads_run_meanwhile() -> None:
    noise = RANDOM.integers(0, 40, (64, 1 << 14), dtype=np.uint8)
    inputs = [saved({"a": row}, "deflate") for row in noise]
    results: list[Array] = []

    def load() -> None:
        results.extend(load_npz_batch(inputs, num_threads=2)["a"] for _ in range(5))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    assert all((result == noise).all() for result in results)
