"""Writes the inputs that fuzzing of arrays and archives begins with into the folder that is named.

A file of each kind, as small as can be: what numpy, zipfile, tarfile and wave write, and what they do not, by hand.
"""

from __future__ import annotations

import io
import struct
import sys
import tarfile
import wave
import zipfile
from pathlib import Path

import numpy as np

from spdl.io import save_npz
from spdl.io._common.native import native

ARRAYS = {
    "plain": np.arange(12, dtype="<f4").reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "scalar": np.array(7),
    "empty": np.zeros((0, 3)),
    "fields": np.zeros(2, [("a", "<f4"), ("b", [("c", "u1", (2,))])]),
    "text": np.array(["ab", "c"]),
    "times": np.array([1, 2], "<M8[ns]"),
}


def _npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def _npz(arrays: dict[str, np.ndarray], compression: int, *, streamed: bool = False) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    if streamed:
        file.seekable = lambda: False  # type: ignore[method-assign]
    with zipfile.ZipFile(file, "w", compression) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                member.write(_npy(array))
    return file.getvalue()


def _saved(compression: str | None) -> bytes:
    file = io.BytesIO()
    save_npz(file, {key: ARRAYS[key] for key in ("plain", "fields")}, compression=compression)  # type: ignore[arg-type]
    return file.getvalue()


def _zip64(data: bytes) -> bytes:
    _, _, _, _, count, size, offset, _ = struct.unpack("<4sHHHHIIH", data[-22:])
    end = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    end += struct.pack("<4sIQI", b"PK\6\7", 0, len(data) - 22, 1)
    return data[:-22] + end + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)


def _tar(kind: int, names: list[str], types: bytes = b"") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for index, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.type = types[index : index + 1] or tarfile.REGTYPE
            member.size = 5 * index
            archive.addfile(member, io.BytesIO(b"abcde" * index))
    return file.getvalue()[: 512 * (3 * len(names) + 6)]


def _wav(channels: int, width: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.setframerate(8000)
        sound.writeframes(bytes(channels * width * 5))
    return file.getvalue()


def _rf64() -> bytes:
    form = (
        struct.pack("<HHIIHHHHI", 0xFFFE, 1, 8000, 32000, 4, 32, 22, 32, 4)
        + b"\3\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    )
    chunks = [(b"ds64", struct.pack("<QQQI", 0, 8, 2, 0), 28), (b"fmt ", form, 40), (b"data", bytes(8), 0xFFFFFFFF)]
    return b"RF64\xff\xff\xff\xffWAVE" + b"".join(name + struct.pack("<I", size) + data for name, data, size in chunks)


def corpus() -> dict[str, bytes]:
    """Return the inputs by the names of their files."""
    inputs = {f"{key}.npy": _npy(array) for key, array in ARRAYS.items()}
    inputs["version2.npy"], inputs["version3.npy"] = (_npy(ARRAYS["fields"], (number, 0)) for number in (2, 3))
    pair = {"a": ARRAYS["plain"], "b": ARRAYS["fortran"]}
    inputs["stored.npz"] = _npz(pair, zipfile.ZIP_STORED)
    inputs["deflated.npz"] = _npz(pair, zipfile.ZIP_DEFLATED)
    inputs["streamed.npz"] = _npz(pair, zipfile.ZIP_DEFLATED, streamed=True)
    inputs["zip64.npz"] = _zip64(inputs["stored.npz"])
    inputs |= {f"saved-{kind or 'stored'}.npz": _saved(kind) for kind in (None, "deflate", "zstd")}
    names = ["a", "d/b.txt", "c"]
    long_names = ["n" * 120, "d" * 140 + "/" + "n" * 90, "ä"]
    inputs["ustar.tar"] = _tar(tarfile.USTAR_FORMAT, ["d" * 140 + "/" + "n" * 90, *names])
    inputs["gnu.tar"] = _tar(tarfile.GNU_FORMAT, long_names)
    inputs["pax.tar"] = _tar(tarfile.PAX_FORMAT, long_names)
    inputs["types.tar"] = _tar(tarfile.GNU_FORMAT, names * 2, b"01250x")
    inputs["wave.wav"], inputs["stereo.wav"], inputs["rf64.wav"] = _wav(1, 1), _wav(2, 2), _rf64()
    inputs["tar.zst"] = native.zstd(b"", inputs["pax.tar"])
    return inputs


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)
