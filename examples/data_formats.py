#!/usr/bin/env python3
"""Load npy, npz and PyTorch files that are in memory, with threads and with processes, and compare the rates.

A sample is an RGB image of 640 x 480 and its labels, 1.2 MB together. It is serialised once and loaded many times:

* ``torch``: `torch.save` of both tensors, loaded by `torch.load`;
* ``npy``: `numpy.save` of each array, loaded by `numpy.load` or by `spdl.io.load_npy`;
* ``npz``: `numpy.savez`, or `numpy.savez_compressed`, loaded by `numpy.load` or by `spdl.io.load_npz`.

Each printed row gives the format, whether it is compressed, the library that loads it, ``mt`` for threads or ``mp``
for processes, their number, and samples per second. Each row runs in a separate process.

The target: with every number of threads, `spdl.io` should load npy, npz and compressed npz faster than `numpy.load` and
than spdl 0.8.0. `benchmarks/data_formats.py` measures that. On two cores the target is met in every row.
"""

from __future__ import annotations

import io
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

import spdl.io
from _program.isolated import measure_in_turns
from _program.options import make_parser, positive
from _program.plots import Line, Panel
from _program.record import Record, finish
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "DataSource",
    "get_executor",
    "get_mock_data",
    "get_pipeline",
    "load_npy",
    "load_npy_spdl",
    "load_npz",
    "load_npz_spdl",
    "load_torch",
    "main",
    "measure_row",
    "run_pipeline",
]

T = TypeVar("T")

CONFIGS = (
    ("torch", False, "torch"),
    ("npy", False, "np"),
    ("npy", False, "spdl"),
    ("npz", False, "np"),
    ("npz", True, "np"),
    ("npz", False, "spdl"),
    ("npz", True, "spdl"),
)
"""Format, compressed or not, and the library that loads it."""

COLUMNS = ("data_format", "compressed", "impl", "mode", "num_workers", "items_per_second")
MODES = {"mp": "processes", "mt": "threads"}
LIBRARIES = {"torch": "torch.load", "np": "numpy.load", "spdl": "spdl.io"}


class DataSource(Generic[T]):
    """A source that yields the same data a given number of times.

    Args:
        data: The data to yield.
        repeat: How often to yield it.
    """

    def __init__(self, data: T, repeat: int) -> None:
        self.data = data
        self.repeat = repeat

    def __iter__(self) -> Iterator[T]:
        for _ in range(self.repeat):
            yield self.data


def load_npy(items: Sequence[bytes]) -> list[NDArray[Any]]:
    """Load arrays from npy bytes with `numpy.load`."""
    return [np.load(io.BytesIO(item), allow_pickle=False) for item in items]


def load_npy_spdl(items: Sequence[bytes]) -> list[NDArray[Any]]:
    """Return the arrays in npy bytes as views, with `spdl.io.load_npy`."""
    return [spdl.io.load_npy(item) for item in items]


def load_npz(item: bytes) -> list[NDArray[Any]]:
    """Load the arrays of npz bytes with `numpy.load`."""
    return list(np.load(io.BytesIO(item)).values())


def load_npz_spdl(item: bytes) -> list[NDArray[Any]]:
    """Return the arrays of npz bytes, as views or inflated, with `spdl.io.load_npz`."""
    return list(spdl.io.load_npz(item).values())


def load_torch(item: bytes) -> list[Any]:
    """Load the tensors of a serialised PyTorch state dict with `torch.load`."""
    return list(torch.load(io.BytesIO(item)).values())


def get_mock_data(format: str, compressed: bool = False) -> tuple[bytes, bytes] | bytes:  # noqa: A002, FBT001, FBT002 - the seed's signature.
    """Return a serialised sample: an image (3, 640, 480) and its labels (640, 480), both random and uint8.

    Args:
        format: ``"npz"``, ``"npy"`` or ``"torch"``.
        compressed: Whether the npz file is compressed.

    Returns:
        The serialised arrays: two byte strings for npy, and one byte string with both arrays for the other formats.

    Raises:
        ValueError: If `format` is none of these.
    """
    rng = np.random.default_rng(0)
    arrays = {
        "img": rng.integers(256, size=(3, 640, 480), dtype=np.uint8),
        "lbl": rng.integers(256, size=(640, 480), dtype=np.uint8),
    }
    if format == "npy":
        return _dump(np.save, arrays["img"]), _dump(np.save, arrays["lbl"])
    if format == "npz":
        return _dump(np.savez_compressed if compressed else np.savez, **arrays)
    if format == "torch":
        tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
        return _dump(lambda file: torch.save(tensors, file))
    raise ValueError(f"`format` must be 'npz', 'npy' or 'torch', got {format!r}")


def _dump(save: Callable[..., None], *args: Any, **kwargs: Any) -> bytes:
    file = io.BytesIO()
    save(file, *args, **kwargs)
    return file.getvalue()


def get_load_fn(data_format: str, impl: str) -> Callable[[Any], list[Any]]:
    """Return the function that loads a format with a library."""
    functions: dict[tuple[str, str], Callable[[Any], list[Any]]] = {
        ("torch", "torch"): load_torch,
        ("npy", "np"): load_npy,
        ("npy", "spdl"): load_npy_spdl,
        ("npz", "np"): load_npz,
        ("npz", "spdl"): load_npz_spdl,
    }
    return functions[data_format, impl]


def get_executor(num_workers: int, mode: str) -> Executor:
    """Return threads for the mode ``"mt"``, or processes for ``"mp"``.

    Shut it down: a process that ends while it has an open pool may wait for the pool's processes forever.

    Raises:
        ValueError: If `mode` is anything else.
    """
    if mode == "mt":
        return ThreadPoolExecutor(num_workers)
    if mode == "mp":
        return ProcessPoolExecutor(num_workers)
    raise ValueError(f"`mode` must be 'mt' or 'mp', got {mode!r}")


def get_pipeline(
    src: Iterable[T], load_fn: Callable[[T], list[Any]], num_workers: int, executor: Executor
) -> Pipeline[Any]:
    """Build a pipeline that loads the items of a source.

    Args:
        src: Yields the serialised samples.
        load_fn: Turns one sample into arrays.
        num_workers: How many items are loaded at once.
        executor: Loads them; see `get_executor`.
    """
    return (
        PipelineBuilder()
        .add_source(src)
        .pipe(load_fn, concurrency=num_workers, executor=executor)
        .add_sink(buffer_size=1)
        .build(num_threads=1)
    )


def run_pipeline(pipeline: Pipeline[Any]) -> tuple[int, float]:
    """Run a pipeline to its end. Return how many items it yielded and how many seconds that took."""
    num_items = 0
    start = time.monotonic()
    with pipeline.auto_stop():
        for _ in pipeline:
            num_items += 1
    return num_items, time.monotonic() - start


def measure_row(
    *, data_format: str, compressed: bool, impl: str, mode: str, num_workers: int, repeat: int
) -> dict[str, float]:
    """Measure a row of the table.

    Returns:
        ``items``, ``seconds`` and ``items_per_second``.
    """
    load_fn, data = get_load_fn(data_format, impl), get_mock_data(data_format, compressed)
    load_fn(data)  # Libraries load some of their parts at the first call.
    with get_executor(num_workers, mode) as executor:
        pipeline = get_pipeline(DataSource(data, repeat), load_fn, num_workers, executor)
        num_items, seconds = run_pipeline(pipeline)
    return {"items": num_items, "seconds": seconds, "items_per_second": num_items / seconds}


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: one for each format, with threads and processes in it."""
    kinds = {"npy": ("npy", False), "npz": ("npz", False), "npz, compressed": ("npz", True), "torch": ("torch", False)}
    found = []
    for title, kind in kinds.items():
        lines: dict[str, Line] = {}
        for mode, workers in MODES.items():
            for impl, library in LIBRARIES.items():
                rows = [
                    row
                    for row in measured["rows"]
                    if (row["data_format"], row["compressed"]) == kind and (row["mode"], row["impl"]) == (mode, impl)
                ]
                if rows:
                    lines[f"{library}, {workers}"] = Line(
                        [row["num_workers"] for row in rows],
                        [row["items_per_second"] for row in rows],
                        ours=impl == "spdl",
                    )
        found.append(Panel(title, "workers", "samples/s", lines, doubling=True))
    return found


def main() -> None:
    """Measure all rows, print the table, and write the files that the command line asks for."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--workers", type=positive, nargs="+", default=[1, 2, 4, 8, 16, 32], metavar="N", help="workers to try"
    )
    parser.add_argument(
        "--repeat", type=positive, default=1000, metavar="N", help="samples per row (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.quick:
        options.workers, options.repeat, options.rounds = [2], 8, 1
    rows: list[dict[str, Any]] = [
        {
            "data_format": data_format,
            "compressed": compressed,
            "impl": impl,
            "mode": mode,
            "num_workers": num_workers,
            "repeat": options.repeat,
        }
        for data_format, compressed, impl in CONFIGS
        for mode in MODES
        for num_workers in options.workers
    ]
    for row, figures in zip(rows, measure_in_turns(measure_row, rows, options.rounds), strict=True):
        row.update(figures)
        print(*(row[key] for key in COLUMNS), sep=",")
    finish(options, {"rows": rows}, "Samples of 1.2 MB loaded per second", panels)


if __name__ == "__main__":
    main()
