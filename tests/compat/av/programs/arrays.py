"""Buffers and the arrays of NumPy and PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import attempt, digest, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    show("int64", digest(spdl.io.convert_array(np.arange(12).reshape(3, 4))))
    show("int32", digest(spdl.io.convert_array(np.arange(12, dtype="int32").reshape(3, 4))))
    attempt("of a list", lambda: digest(spdl.io.convert_array([1, 2, 3])))
    attempt("of floats", lambda: digest(spdl.io.convert_array(np.arange(3.0))))
    attempt("of columns", lambda: digest(spdl.io.convert_array(np.arange(12).reshape(3, 4).T)))
    attempt("of nothing", lambda: digest(spdl.io.convert_array(np.empty(0, "int64"))))
    storage = spdl.io.cpu_storage(96, pin_memory=False)
    show("into storage", digest(spdl.io.convert_array(np.arange(12), storage)))
    small = spdl.io.cpu_storage(95, pin_memory=False)
    attempt("into too small a storage", lambda: digest(spdl.io.convert_array(np.arange(12), small)))

    buffer = spdl.io.load_video(clips / "ffv1.mkv", filter_desc=None)
    interface = buffer.__array_interface__
    show("interface", f"{interface['version']} {interface['shape']} {interface['typestr']} {interface.get('strides')}")
    one, two = spdl.io.to_numpy(buffer), spdl.io.to_numpy(buffer)
    one[0] = 7
    show("no copy", bool((two[0] == 7).all()))
    del buffer
    show("the memory lives on", digest(two))
    attempt("of no buffer", lambda: spdl.io.to_numpy(object()))
    buffer = spdl.io.load_audio(clips / "s16.wav", filter_desc=None)
    tensor = spdl.io.to_torch(buffer)
    show("tensor", f"{tensor.dtype} {tuple(tensor.shape)} {int(tensor.to(dtype=tensor.dtype).abs().max())}")
    tensor[0] = 5
    show("no copy for PyTorch", spdl.io.to_numpy(buffer)[0].tolist())
