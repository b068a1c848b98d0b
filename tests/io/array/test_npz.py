"""Archives of arrays: numpy and zipfile write them."""

from __future__ import annotations

import gc
import io
import itertools
import struct
import threading
import weakref
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.arrays import Array, any_array, as_npy, same
from tests.io.zips import Entry, as_npz, handmade

from spdl.io import FormatError, NpzFile, load_npz, load_npz_batch, save_npz

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda key: not key.endswith(".npy")
)

IMAGE = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
LABEL = np.linspace(0, 1, 7)
ARRAYS: dict[str, Array] = {"image": IMAGE, "label": LABEL}
STORED, DEFLATED = as_npz(ARRAYS), as_npz(ARRAYS, zipfile.ZIP_DEFLATED)
NPY = as_npy(IMAGE)


def stored(name: bytes = b"a.npy", content: bytes = NPY, **changes: Any) -> Entry:
    return Entry(name, content, crc=zlib.crc32(content))._replace(**changes)


def deflated(name: bytes = b"a.npy", content: bytes = NPY, **changes: Any) -> Entry:
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(content) + packer.flush()
    return Entry(name, packed, 8, crc=zlib.crc32(content), size=len(content))._replace(**changes)


@given(
    st.dictionaries(KEYS, any_array(), max_size=5),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    st.sampled_from(["file", "pipe"]),
)
def test_reads_what_zipfile_writes(arrays: dict[str, Array], compression: int, target: str) -> None:
    data = as_npz(arrays, compression, streamed=target == "pipe")
    ours = load_npz(data, verify=True)
    theirs = np.load(io.BytesIO(data), allow_pickle=False)
    assert ours.files == list(theirs.files)
    assert len(ours) == len(arrays)
    for key, array in ours.items():
        assert same(array, theirs[key])
        assert same(ours[f"{key}.npy"], array)
    for key, array in ours.load_many().items():
        assert same(array, theirs[key])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_what_numpy_writes(save: Any) -> None:
    file = io.BytesIO()
    save(file, **ARRAYS)
    ours = load_npz(file.getvalue())
    assert ours.files == ["image", "label"]
    assert all(same(left, right) for left, right in zip(ours.values(), ARRAYS.values(), strict=True))


def test_is_a_mapping() -> None:
    arrays = load_npz(STORED)
    assert isinstance(arrays, NpzFile)
    assert list(arrays) == list(arrays.keys()) == ["image", "label"]
    assert "image" in arrays
    assert "image.npy" in arrays
    assert "img" not in arrays
    assert 3 not in cast("Mapping[Any, Any]", arrays)
    assert arrays.get("img") is None
    with pytest.raises(KeyError, match="img"):
        arrays["img"]
    with pytest.raises(KeyError, match=r"no array 'img\.npy'; it has 2 of them: \['image', 'label'\]"):
        arrays["img.npy"]
    for key in 3, None:
        assert cast("Mapping[Any, Any]", arrays).get(key) is None
        with pytest.raises(KeyError, match=f"no array {key};"):
            cast("Mapping[Any, Any]", arrays)[key]
        with pytest.raises(KeyError, match=f"no array {key};"):
            arrays.load_many([cast("Any", key)])
    assert repr(arrays) == "NpzFile(image, label)"


def test_stored_members_are_views() -> None:
    content = bytearray(STORED)
    array = load_npz(content)["image"]
    array[0, 0, 0] = 42
    assert load_npz(content)["image"][0, 0, 0] == 42
    with pytest.raises(BufferError):
        content.clear()
    assert not load_npz(STORED)["image"].flags.writeable


def test_deflated_members_own_their_memory() -> None:
    array = load_npz(DEFLATED)["image"]
    assert array.flags.writeable
    assert array.flags.aligned
    array += 1
    assert same(load_npz(DEFLATED)["image"], IMAGE)


@pytest.mark.parametrize("data", [STORED, DEFLATED])
def test_arrays_outlive_the_archive(data: bytes) -> None:
    class Input(bytearray):
        pass

    content = Input(data)
    gone = weakref.ref(content)
    arrays = load_npz(content)
    image = arrays["image"]
    del arrays, content
    gc.collect()
    assert (gone() is None) == (data is DEFLATED)
    assert same(image, IMAGE)
    del image
    assert gone() is None


@pytest.mark.parametrize("compression", [None, "deflate", "zstd"])
def test_maps_a_path(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "arrays.npz"
    save_npz(path, ARRAYS, compression=compression)
    image = load_npz(path)["image"]
    path.unlink()
    assert same(image, IMAGE)
    assert image.flags.writeable == (compression is not None)


def test_views_of_a_mapped_archive_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    save_npz(path, {"odd": np.zeros(3, "u1"), "complex": np.zeros(3, "c16"), "x" * 51: np.zeros(2)})
    for array in load_npz(path).values():
        assert array.__array_interface__["data"][0] % 64 == 0


def test_large_members_are_inflated_whole() -> None:
    array = np.random.default_rng(0).integers(0, 9, (1 << 21) + 3, dtype=np.uint8)
    assert same(load_npz(as_npz({"a": array}, zipfile.ZIP_DEFLATED))["a"], array)


def test_members_with_objects_are_refused_alone() -> None:
    file = io.BytesIO()
    np.savez(file, image=IMAGE, metadata=np.array({"source": "camera"}), allow_pickle=True)
    arrays = load_npz(file.getvalue())
    assert arrays.files == ["image", "metadata"]
    assert same(arrays["image"], IMAGE)
    with pytest.raises(FormatError, match=r'member "metadata\.npy" at byte \d+: .*Python objects'):
        arrays["metadata"]
    with pytest.raises(FormatError, match=r'member "metadata\.npy" at byte \d+: .*Python objects'):
        arrays.load_many()
    assert list(arrays.load_many(["image"])) == ["image"]


def test_load_many_fills_arrays_of_any_order() -> None:
    arrays = load_npz(DEFLATED)
    out: dict[str, Array] = {"image": np.zeros(IMAGE.shape, IMAGE.dtype, order="F"), "other": np.zeros(1)}
    result = arrays.load_many(["image"], out=out)
    assert result["image"] is out["image"]
    assert same(out["image"], IMAGE)
    assert list(result) == ["image"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros((3, 4, 4), "i1"), "must be of dtype uint8 and shape"),
        (np.zeros((3, 4, 5), "u1"), "must be of dtype uint8 and shape"),
        (np.broadcast_to(np.zeros(1, "u1"), (3, 4, 4)), "must be writable"),
    ],
)
def test_load_many_refuses_arrays_that_do_not_fit(target: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_npz(STORED).load_many(["image"], out={"image": target})


def test_load_many_says_what_it_wants() -> None:
    arrays = load_npz(STORED)
    with pytest.raises(KeyError, match="`out` has no array 'image'"):
        arrays.load_many(["image"], out={})
    with pytest.raises(KeyError, match="the archive has no array 'none'"):
        arrays.load_many(["none"])
    with pytest.raises(TypeError, match=r"an iterable of keys, got 'image' .*For one array pass a list"):
        arrays.load_many("image")
    with pytest.raises(TypeError, match=r"`out\['label'\]` must be a NumPy array, got \[0\] "):
        arrays.load_many(["label"], out={"label": cast("Any", [0])})


def test_messages_do_not_show_all_keys_of_a_large_archive() -> None:
    arrays = load_npz(as_npz({str(number): LABEL for number in range(21)}))
    with pytest.raises(KeyError, match=r"no array 'x'; it has 21 of them: \['0', .*, '19'\] and so on"):
        arrays["x"]


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(b"bad")
    with pytest.raises(FormatError, match=r"^'.*/bad\.npz': this is not a zip archive"):
        load_npz(path)
    path.write_bytes(handmade(stored(content=b"bad")))
    arrays = load_npz(str(path))
    for read in lambda: arrays["a"], arrays.load_many:
        with pytest.raises(FormatError, match=r"""^'.*/bad\.npz': member "a\.npy" at byte \d+: this is not npy data"""):
            read()


@pytest.mark.parametrize(
    ("budget", "error", "message"),
    [
        (-1, ValueError, "an int of at least 0, got -1"),
        (1.5, TypeError, "an int of at least 0, got 1.5"),
        (None, TypeError, "an int of at least 0, got None"),
    ],
)
def test_budgets_that_are_none(budget: Any, error: type[Exception], message: str) -> None:
    for load in load_npz, lambda data, **budget: load_npz_batch([data], **budget):
        with pytest.raises(error, match=f"`max_uncompressed_bytes` must be {message}"):
            load(DEFLATED, max_uncompressed_bytes=budget)
        assert len(load(DEFLATED, max_uncompressed_bytes=1 << 70)) == 2


def test_the_budget_is_for_compressed_members() -> None:
    total = len(NPY) + len(as_npy(LABEL))
    assert load_npz(DEFLATED, max_uncompressed_bytes=total)
    with pytest.raises(FormatError, match=rf"inflate to {total} bytes, more than the `max_uncompressed_bytes` of"):
        load_npz(DEFLATED, max_uncompressed_bytes=total - 1)
    assert same(load_npz(STORED, max_uncompressed_bytes=0)["image"], IMAGE)


def test_a_bomb_gets_no_memory() -> None:
    arrays = load_npz(handmade(deflated(size=1 << 29)))
    with pytest.raises(
        FormatError, match=r'member "a\.npy" at byte \d+: its \d+ bytes cannot inflate to the 536870912'
    ):
        arrays["a"]


@pytest.mark.parametrize("entry", [stored(), deflated()])
def test_checksums(entry: Entry) -> None:
    spoilt = load_npz(handmade(entry._replace(crc=1)), verify=True)
    with pytest.raises(FormatError, match=r'member "a\.npy" at byte \d+: .*checksum'):
        spoilt["a"]
    with pytest.raises(FormatError, match=r'member "a\.npy" at byte \d+: .*checksum'):
        spoilt.load_many()
    unverified = load_npz(handmade(entry._replace(crc=1)))
    if entry.method == 0:
        assert same(unverified["a"], IMAGE)
    else:
        with pytest.raises(FormatError, match="checksum"):
            unverified["a"]


def test_of_members_with_one_name_the_last_counts() -> None:
    data = handmade(stored(content=as_npy(LABEL)), stored())
    assert load_npz(data).files == ["a"]
    assert same(load_npz(data)["a"], IMAGE)


def test_members_that_are_no_arrays() -> None:
    members = [stored(b"a", b"text"), stored(b"a.npy"), stored(b"b.txt", b"text")]
    for order in itertools.permutations(members):
        arrays = load_npz(handmade(*order))
        assert same(arrays["a.npy"], IMAGE)
        assert set(arrays.files) == {"a", "a.npy", "b.txt"}
        with pytest.raises(FormatError, match=r'member "b\.txt" at byte \d+: this is not npy data'):
            arrays["b.txt"]


def test_names_in_code_page_437() -> None:
    assert load_npz(handmade(stored("é.npy".encode("cp437")))).files == ["é"]
    assert load_npz(handmade(stored("é.npy".encode(), flags=0x800))).files == ["é"]


def test_something_in_front_of_the_archive_and_behind_it() -> None:
    assert same(load_npz(b"#!/bin/sh\n" + STORED)["image"], IMAGE)
    assert same(load_npz(handmade(stored(), comment=b"remark"))["a"], IMAGE)


@pytest.mark.parametrize("data", [STORED, handmade(stored(), comment=b"remark"), as_npz({})])
@pytest.mark.parametrize("zeros", [1, 21, 22, 4096, 100_000])
def test_zeros_behind_the_archive(data: bytes, zeros: int) -> None:
    """Shared memory has whole pages."""
    padded = data + bytes(zeros)
    assert load_npz(padded, verify=True).files == load_npz(data).files == list(np.load(io.BytesIO(data)).files)
    with pytest.raises(FormatError, match="this is not a zip archive"):
        load_npz(bytes(zeros))


@pytest.mark.parametrize("data", [STORED, handmade(stored(), comment=b"remark")])
@pytest.mark.parametrize("junk", [b"x", b"\n", b"junk" * 1000, bytes(5000) + b"x", bytes(70_000) + b"x"])
def test_whatever_follows_an_archive_that_zipfile_reads(data: bytes, junk: bytes) -> None:
    expected = numpy_keys(data + junk)
    assert (expected is None) == (len(junk) > 65_000)
    if expected is None:
        with pytest.raises(FormatError, match="bytes have no zip directory in their last 65557"):
            load_npz(data + junk)
    else:
        assert load_npz(data + junk, verify=True).files == expected


def numpy_keys(data: bytes) -> list[str] | None:
    """Return the names that numpy finds; nothing if zipfile says that it is no archive."""
    try:
        return list(np.load(io.BytesIO(data)).files)
    except zipfile.BadZipFile:
        return None


def test_a_comment_that_was_cut_does_not_matter() -> None:
    data = handmade(stored(), comment=b"remark")
    for size in range(1, 7):
        assert load_npz(data[:-size]).files == numpy_keys(data[:-size]) == ["a"]
    with pytest.raises(FormatError, match="this is not a zip archive"):
        load_npz(data[:-7])


def test_more_members_than_the_count_can_tell() -> None:
    """Some programs write only the lower 16 bits, and no zip64 record."""
    data = handmade(*(stored(b"%d.npy" % index, content=b"") for index in range((1 << 16) + 2)), count=2)
    assert load_npz(data).files == numpy_keys(data)
    with pytest.raises(FormatError, match="says that it has 1 member, and has 65538"):
        load_npz(data[:-14] + b"\1\0\1\0" + data[-10:])


def test_zip64_in_the_directory() -> None:
    size = len(NPY)
    extra = struct.pack("<HHQQQ", 1, 24, size, size, 0)
    data = handmade(stored(size=0xFFFFFFFF, compressed_size=0xFFFFFFFF, offset=0xFFFFFFFF, extra=extra))
    assert same(load_npz(data, verify=True)["a"], IMAGE)


def with_zip64_end(data: bytes, *, needed: bool = True) -> bytes:
    signature, disk, first, here, count, size, offset, comment = struct.unpack("<4sHHHHIIH", data[-22:])
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, disk, first, here, count, size, offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(data) - 22, 1)
    end = struct.pack("<4sHHHHIIH", signature, disk, first, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, comment)
    return data[:-22] + end64 + locator + (end if needed else data[-22:])


@pytest.mark.parametrize("needed", [True, False])
def test_zip64_at_the_end(needed: bool) -> None:  # noqa: FBT001
    """The zip program writes it whether it is needed or not, if it writes to a pipe."""
    data = with_zip64_end(STORED, needed=needed)
    assert same(np.load(io.BytesIO(data))["image"], IMAGE)
    assert same(load_npz(data)["image"], IMAGE)
    assert same(load_npz(b"prefix" + data)["image"], IMAGE)


def test_what_only_looks_like_zip64() -> None:
    entry = stored(extra=b"PK\6\7" + bytes(16))
    assert same(load_npz(handmade(entry))["a"], IMAGE)
    data = bytearray(with_zip64_end(STORED))
    data[data.index(b"PK\6\6")] = 0
    with pytest.raises(FormatError, match="zip64 archive is damaged or truncated: the end of its directory is missing"):
        load_npz(data)


@pytest.mark.parametrize("data", [STORED, DEFLATED, with_zip64_end(STORED)])
def test_a_truncated_archive_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(FormatError):
            load_npz(data[:size])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is not a zip archive, or it is truncated: the 0 bytes"),
        (NPY, "this is not a zip archive"),
        (handmade(stored(), shift=1), "directory of 51 bytes at byte .* goes beyond its end"),
        (handmade(stored(), count=2), "says that it has 2 members, and there is room for 1"),
        (handmade(stored(), stored(b"b.npy"), count=1), "says that it has 1 member, and has 2"),
        (handmade(stored(offset=5000)), "goes beyond the beginning of the directory"),
        (handmade(stored(compressed_size=5000)), r'member "a\.npy" of 5000 bytes at byte 0 goes beyond'),
        (handmade(stored(), stored(b"b.npy", offset=0)), "overlaps with what begins at byte 0"),
        (
            handmade(stored(), stored(b"b.npy", offset=10)),
            r'member "a\.npy" at byte 0 overlaps with what begins at byte 10',
        ),
        (handmade(stored(size=0xFFFFFFFF, extra=struct.pack("<HH", 1, 0))), "a zip64 size is missing"),
        (STORED[:-22] + STORED[-22:].replace(b"PK\5\6\0\0\0\0", b"PK\5\6\1\0\0\0"), "one of several parts"),
    ],
)
def test_a_damaged_directory_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_npz(data)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (stored(method=12), "compressed by method 12; stored members and those compressed by deflate"),
        (stored(flags=1), "encrypted"),
        (stored(size=5), "its 176 bytes are said to be 5"),
        (stored(local_name=b"b.npy"), "gives another name or method than the directory"),
        (stored(content=NPY + b"x"), "elements of 48 bytes, and there are 49 behind it"),
        (stored(content=NPY[:-1]), "elements of 48 bytes, and there are 47 behind it"),
        (deflated(size=len(NPY) - 1), "more than the 175 bytes"),
        (deflated(size=len(NPY) + 1), "is damaged or truncated|fewer than the 177 bytes"),
        (deflated(content=b""), "not npy data"),
        (deflated()._replace(content=b"\xff" * 90), "deflate data is damaged"),
        (deflated()._replace(content=deflated().content + b"x"), "ends after"),
        (deflated(method=93), "zstd data cannot be inflated"),
    ],
)
def test_a_damaged_member_is_refused_when_it_is_read(entry: Entry, message: str) -> None:
    arrays = load_npz(handmade(entry, stored(b"sound.npy")))
    with pytest.raises(FormatError, match=rf'^member "a\.npy" at byte \d+: .*({message})'):
        arrays["a"]
    assert same(arrays["sound"], IMAGE)


def test_a_local_header_that_reaches_into_the_next_member() -> None:
    data = bytearray(handmade(stored(), stored(b"b.npy")))
    data[28:30] = b"\1\0"
    with pytest.raises(
        FormatError,
        match=r'member "a\.npy" at byte \d+: .* its 176 bytes at byte 36 overlap with what begins at byte 211',
    ):
        load_npz(data)["a"]


def test_no_local_header() -> None:
    data = bytearray(STORED)
    data[0] = 0
    with pytest.raises(FormatError, match="no local header lies at byte 0"):
        load_npz(data)["image"]


def test_names_cannot_garble_messages() -> None:
    arrays = load_npz(handmade(stored(b"\n\0\xff.npy", b"")))
    with pytest.raises(FormatError, match=r'^member "\\x0a\\x00\\xff\.npy" at byte \d+: '):
        arrays[arrays.files[0]]


@given(st.data())
def test_damage_never_gives_wrong_arrays_of_deflated_members(data: st.DataObject) -> None:
    spoilt = bytearray(DEFLATED)
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    try:
        arrays = dict(load_npz(spoilt))
    except FormatError:
        return
    for key in set(arrays) & set(ARRAYS):
        assert same(arrays[key], ARRAYS[key])


def test_threads_read_at_once() -> None:
    arrays = load_npz(as_npz({str(number): np.full(50_000, number) for number in range(8)}, zipfile.ZIP_DEFLATED))
    wrong: list[int] = []

    def read() -> None:
        for number in itertools.islice(itertools.cycle(range(8)), 200):
            wrong.extend([number] * int((arrays[str(number)] != number).sum()))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
