"""libdeflate alone, as a program would call it that knows everything already: into one buffer that is reused."""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import zipfile
from typing import TYPE_CHECKING

import data
import numpy as np
from loads import timed

if TYPE_CHECKING:
    from collections.abc import Callable


def inflate(*, kind: str, threads: int, calls: int, checksum: bool) -> dict[str, float]:
    """Inflate the members of a .npz file. If `checksum`, also compute the checksums that a zip archive asks for."""
    library = ctypes.CDLL(ctypes.util.find_library("deflate"))
    library.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
    library.libdeflate_deflate_decompress.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
    ]  # fmt: skip
    library.libdeflate_crc32.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
    library.libdeflate_crc32.restype = ctypes.c_uint32
    file = data.npz(kind, "deflated")
    members: list[tuple[bytes, int, int]] = []
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        for it in archive.infolist():
            start = it.header_offset + 30
            start += sum(np.frombuffer(file, "<u2", 2, it.header_offset + 26).tolist())
            members.append((file[start : start + it.compress_size], it.file_size, it.CRC))

    def each() -> Callable[[], None]:
        state = library.libdeflate_alloc_decompressor()
        outs = [(ctypes.c_uint8 * size)() for _, size, _ in members]

        def call() -> None:
            for (compressed, size, crc), out in zip(members, outs, strict=True):
                if library.libdeflate_deflate_decompress(state, compressed, len(compressed), out, size, None):
                    raise SystemExit("the data is damaged")
                if checksum and library.libdeflate_crc32(0, out, size) != crc:
                    raise SystemExit("the checksum is wrong")

        return call

    if threads != 1:
        raise SystemExit("this decompressor serves one thread only")
    return timed(each(), 1, calls)
