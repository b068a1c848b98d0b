"""Finds the photos that a dataset opens with Pillow, and what becomes of them, so that SPDL can load the same."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Photos", "photos_in"]

_MOST_BATCHES = 8
_SECONDS = 1.0
_DEPTH = 3
_DIMENSIONS, _CHANNELS = 4, 3
# So many that no turn comes to the end.
_REPEATED = 100_000


class Photos(NamedTuple):
    """Photos, and the batches that a dataset makes of them.

    Attributes:
        files: Their paths, in the order in which they were opened.
        batch_size: How many of them are in a batch.
        height, width: The size of the pictures in it.
        layout: ``"NCHW"`` or ``"NHWC"``.
        dtype: The type of its values.
    """

    files: list[str]
    batch_size: int
    height: int
    width: int
    layout: str
    dtype: str

    def loader(self, threads: int) -> Any:
        """Return what loads the same files into batches of the same shape, again and again."""
        files = self.files * (_REPEATED // len(self.files) + 1)
        return import_module("spdl.dataloader").ImageLoader(
            files,
            self.batch_size,
            size=(self.height, self.width),
            mode="stretch",
            layout=self.layout,
            dtype=self.dtype,
            num_threads=threads,
        )

    def __str__(self) -> str:
        count = len(set(self.files))
        return f"{count} of the job's photos as {self.width}x{self.height}, {self.dtype}"


def photos_in(batches: Any) -> Photos | None:
    """Return the photos of the first batches; None if what is opened is not exactly what the batches consist of.

    Args:
        batches: A loader without workers, so that the dataset's code runs here.
    """
    image = sys.modules.get("PIL.Image")
    if image is None:
        return None
    files = list[str]()
    opens = vars(image)["open"]

    def note(file: Any, *arguments: Any, **named: Any) -> Any:
        # An open file tells its path; a number or bytes are none.
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        files.append(os.path.abspath(path) if isinstance(path, (str, os.PathLike)) else "")  # noqa: PTH100 - no pathlib.
        return opens(file, *arguments, **named)

    vars(image)["open"] = note
    sizes = list[int]()
    shape: tuple[int, int, str, str] | None = None
    try:
        end = perf_counter() + _SECONDS
        for batch in batches:
            found = next(_pictures(batch, _DEPTH), None)
            if found is None or shape not in (None, found[1:]):
                return None
            sizes.append(found[0])
            shape = found[1:]
            if len(sizes) == _MOST_BATCHES or perf_counter() > end:
                break
    except Exception:  # noqa: BLE001 - the way in which the job loads tells it.
        return None
    finally:
        vars(image)["open"] = opens
    if shape is None or len(files) != sum(sizes) or not all(map(os.path.isfile, files)):
        return None
    return Photos(files, max(sizes), *shape)


def _pictures(value: Any, depth: int) -> Iterator[tuple[int, int, int, str, str]]:
    """Yield the number, height, width, layout and type of the RGB pictures in a batch."""
    shape, dtype = getattr(value, "shape", ()), str(getattr(value, "dtype", "")).rpartition(".")[2]
    if len(shape) == _DIMENSIONS and dtype in ("uint8", "float16", "float32"):
        count, *sides = map(int, shape)
        if sides[0] == _CHANNELS:
            yield count, sides[1], sides[2], "NCHW", dtype
        elif sides[2] == _CHANNELS:
            yield count, sides[0], sides[1], "NHWC", dtype
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _pictures(each, depth - 1)
