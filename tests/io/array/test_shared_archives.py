"""Eight threads on one array, archive or stream at once: each result is right. Meant for builds without the GIL.

`scripts/thread_sanitizer.sh` runs this module under ThreadSanitizer.
"""

import io
import itertools
import threading
import wave
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.hammer import THREADS, assert_agree, hammer
from tests.io.inside import compress_zstd
from tests.io.tars import make_tar

from spdl.io import (
    TarFile,
    iter_tarfile,
    load_npy,
    load_npz,
    load_npz_batch,
    load_wav,
    parse_wav,
    save_npy,
    save_npz,
    tar_index,
)
from spdl.io._archive.tar_headers import Walk


def test_archives_of_arrays() -> None:
    arrays = {"plain": np.arange(500), "swapped": np.arange(9, dtype=">i2"), "fields": np.zeros(3, [("a", "<f4")])}
    file = io.BytesIO()
    save_npz(file, arrays, compression="deflate")
    data = file.getvalue()
    shared = load_npz(data)
    returned = hammer(
        lambda: int(shared["plain"].sum()),
        lambda: [shared[key].dtype for key in arrays],
        lambda: {key: array.tobytes() for key, array in shared.load_many().items()},
        lambda: int(load_npz_batch([data, data], num_threads=2)["plain"].sum()),
        lambda: load_npz(data).files,
        lambda: (len(shared), list(shared), "plain" in shared, "none" in shared, repr(shared)),
    )
    assert_agree(returned)
    assert [values[0] for values in returned] == [
        arrays["plain"].sum(),
        [array.dtype for array in arrays.values()],
        {key: array.tobytes() for key, array in arrays.items()},
        2 * arrays["plain"].sum(),
        list(arrays),
        (3, list(arrays), True, False, f"NpzFile({', '.join(arrays)})"),
    ]


def test_headers_that_all_look_at() -> None:
    data = make_tar([("a.txt", b"one")])
    walk = Walk(lambda start, length: data[start : start + length], len(data))
    returned = hammer(lambda: walk.step(0), lambda: walk.is_plain)
    assert_agree(returned)
    assert [values[0] for values in returned] == [((b"a.txt", 512, 3), 1024), True]


def test_arrays_that_all_copy_from_and_to(tmp_path: Path) -> None:
    array = np.arange(3000, dtype=np.float32).reshape(50, 60)
    file = tmp_path / "array.npy"
    save_npy(file, array)
    data = file.read_bytes()
    fields = np.zeros(3, [("a", "<f4"), ("b", "<i2")])
    described = io.BytesIO()
    save_npy(described, fields)

    def saved(target: Any) -> bytes:
        into = io.BytesIO()
        save_npy(into, target)
        return into.getvalue()

    returned = hammer(
        lambda: load_npy(data).tobytes(),
        lambda: load_npy(data, copy=True).tobytes(),
        lambda: load_npy(file).tobytes(),
        lambda: load_npy(described.getvalue()).dtype,
        lambda: saved(array),
    )
    assert_agree(returned)
    assert [values[0] for values in returned] == [*[array.tobytes()] * 3, fields.dtype, data]


def test_archives_of_files(tmp_path: Path) -> None:
    members = [(f"{number}.bin", bytes([number]) * number) for number in range(200)]
    data = make_tar(members)
    path = tmp_path / "archive.tar"
    path.write_bytes(data)
    shared = TarFile(path)
    returned = hammer(
        lambda: shared.read("7.bin").tobytes(),
        lambda: [(name, view.tobytes()) for name, view in shared.iter_from(150)],
        lambda: (shared.index.find("9.bin"), shared.index[-1], len(shared.index[3:8])),
        lambda: list(tar_index(path)),
        lambda: [(name, view.tobytes()) for name, view in shared],
        lambda: [(name, bytes(content)) for name, content in iter_tarfile(data)],
        lambda: list(iter_tarfile(io.BytesIO(data))),
        lambda: list(iter_tarfile(compress_zstd(data))),
    )
    assert_agree(returned)
    places = list(shared.index)
    assert [values[0] for values in returned] == [
        members[7][1],
        members[150:],
        (9, places[-1], 5),
        places,
        *[members] * 4,
    ]


@pytest.mark.parametrize("kind", ["bytes", "stream", "compressed"])
def test_an_iterator_over_an_archive(kind: str) -> None:
    members = [(f"{number}.bin", bytes([number])) for number in range(200)]
    data = make_tar(members)
    sources = {"bytes": data, "stream": io.BytesIO(data), "compressed": compress_zstd(data)}
    # Of streams, one member is read at a time: a thread that comes meanwhile is told so.
    errors = [] if kind == "bytes" else [ValueError]

    def drain(shared: Iterator[tuple[str, Any]]) -> list[tuple[str, bytes]]:
        got: list[tuple[str, bytes]] = []
        while True:
            try:
                name, content = next(shared)
            except StopIteration:
                return got
            except (*errors,) as error:
                assert "already executing" in str(error)  # noqa: PT017 - either outcome is right.
            else:
                got.append((name, bytes(content)))

    for _ in range(5):
        shared = iter_tarfile(sources[kind])
        if kind == "stream":
            sources[kind] = io.BytesIO(data)
        with ThreadPoolExecutor(THREADS) as pool:
            parts = list(pool.map(drain, [shared] * THREADS))
        assert sorted(itertools.chain(*parts)) == sorted(members)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_members_that_threads_have_to_themselves(kind: Callable[[bytes], Any]) -> None:
    data = kind(make_tar([(str(number), b"content") for number in range(THREADS)]))

    def slice_it(view: Any) -> set[bytes]:
        barrier.wait()
        return {bytes(view[:3]) for _ in range(20_000)}

    for _ in range(10):
        barrier = threading.Barrier(THREADS)
        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(slice_it, [view for _, view in iter_tarfile(data)])) == [{b"con"}] * THREADS


def test_the_headers_of_sound() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(400))
    data = file.getvalue()
    header = parse_wav(data)
    assert_agree(hammer(lambda: (header.sample_rate, header.data_size), lambda: load_wav(data).shape))
