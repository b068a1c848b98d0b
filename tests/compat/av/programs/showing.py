"""What the programs print: values that are the same with every version of FFmpeg and on every machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

import spdl.io

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCKS = 8


def show(label: str, value: object) -> None:
    """Print a line at once, as the program may be ended before its time."""
    print(f"{label}: {value}", flush=True)  # noqa: T201 - what a program prints is its result.


def attempt(label: str, call: Callable[[], object]) -> None:
    """Print what a call returns, or the types by which its exception can be caught."""
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - any type is what is looked for.
        names = [it.__name__ for it in type(error).__mro__ if it not in (Exception, BaseException, object)]
        show(label, f"raises {'/'.join(names)}")
    else:
        show(label, value)


def array(buffer: Any) -> Any:
    """Return the NumPy array of a buffer."""
    return spdl.io.to_numpy(buffer)


def form(buffer: Any) -> str:
    """Return the type and the shape of an array or a buffer."""
    values = buffer if isinstance(buffer, np.ndarray) else array(buffer)
    return f"{values.dtype} {values.shape}"


def digest(buffer: Any) -> str:
    """Return the type, the shape and a checksum of an array or a buffer whose every bit is known beforehand."""
    values = buffer if isinstance(buffer, np.ndarray) else array(buffer)
    return f"{form(values)} {hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]}"


def numbers(buffer: Any) -> str:
    """Return the numbers that the pictures of a video carry, in ranges: 0-4 7 9-11.

    Each is written in eight blocks, black or white, along the picture's top quarter. The pictures are (N, H, W, 3),
    or (N, 1, 3 * H / 2, W) with the planes of 4:2:0 one below the other.
    """
    pictures = buffer if isinstance(buffer, np.ndarray) else array(buffer)
    height = pictures.shape[2] * 2 // 3 if pictures.shape[1] == 1 else pictures.shape[1]
    gray = pictures[:, 0] if pictures.shape[1] == 1 else pictures.mean(axis=-1)
    return ranges([_number(picture, height) for picture in gray])


def ranges(values: list[int]) -> str:
    """Return integers in a short form."""
    found: list[list[int]] = []
    for value in values:
        if found and value == found[-1][-1] + 1:
            found[-1] = [found[-1][0], value]
        else:
            found.append([value])
    return " ".join("-".join(map(str, it)) for it in found)


def seconds(times: Any) -> str:
    """Return times in seconds, rounded to what every container can hold."""
    return " ".join(f"{float(it):.3f}" for it in times)


def _number(picture: Any, height: int) -> int:
    width = picture.shape[-1]
    rows = picture[height // 16 : height * 3 // 16]
    number = 0
    for bit in range(_BLOCKS):
        left, right = bit * width // _BLOCKS, (bit + 1) * width // _BLOCKS
        inner = (right - left) // 4
        number |= int(rows[:, left + inner : right - inner].mean() > 128) << bit
    return number
