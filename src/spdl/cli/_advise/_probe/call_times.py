"""Measure the calls of a dataset: reading, decoding, transforming or waiting, and how long they take."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter, process_time, thread_time
from types import CodeType, FrameType
from typing import Any

READING = "reading"
DECODING = "decoding"
TRANSFORMING = "transforming"
WAITING = "waiting"

_READING = (
    *("aiohttp", "azure", "boto3", "botocore", "fsspec", "gcsfs", "google.cloud.storage", "h5py", "http", "httpx"),
    *("lmdb", "mmap", "netCDF4", "obstore", "pyarrow.fs", "requests", "s3fs", "socket", "sqlite3", "ssl", "tarfile"),
    *("urllib", "urllib3", "zarr", "zipfile"),
)
_DECODING = (
    *("PIL.ImageFile", "av", "bz2", "csv", "cv2", "decord", "gzip", "imageio", "json", "librosa", "lzma", "msgpack"),
    *("nibabel", "numpy.lib._format_impl", "numpy.lib._npyio_impl", "numpy.lib.format", "numpy.lib.npyio", "orjson"),
    *("pandas.io", "pickle", "pyarrow.parquet", "pydicom", "rawpy", "simplejpeg", "skimage.io", "soundfile", "spdl.io"),
    *("tifffile", "torchaudio", "torchcodec", "torchvision.io", "turbojpeg", "zstandard"),
)
_TRANSFORMING = (
    *("PIL.Image", "PIL.ImageChops", "PIL.ImageEnhance", "PIL.ImageFilter", "PIL.ImageOps", "albumentations"),
    *("imgaug", "kornia", "monai.transforms", "scipy.ndimage", "skimage.transform", "torchvision.transforms"),
    *("torchvision.tv_tensors",),
)
_BUILTINS: dict[str, tuple[str, ...]] = {
    READING: ("_socket", "_ssl", "h5py", "lmdb", "mmap", "_sqlite3"),
    DECODING: (
        *("_bz2", "_csv", "_json", "_lzma", "_pickle", "av", "msgpack", "orjson", "simplejpeg", "zlib", "zstandard"),
    ),
}
# Those of modules that do other things, too.
_BUILTIN_NAMES = {
    ("_io", "open"): READING,
    ("io", "open"): READING,
    ("time", "sleep"): WAITING,
    ("numpy", "fromfile"): READING,
    ("numpy._core.multiarray", "fromfile"): READING,
    ("numpy.core.multiarray", "fromfile"): READING,
    ("select", "select"): WAITING,
    ("select.poll", "poll"): WAITING,
    ("select.epoll", "poll"): WAITING,
    ("_thread.lock", "acquire"): WAITING,
    ("_thread.lock", "__enter__"): WAITING,
}
_FILE_CALLS = {"read", "read1", "readall", "readinto", "readinto1", "readline", "readlines", "close", "seek", "peek"}
_FILES = {"BufferedReader", "BufferedRandom", "FileIO", "TextIOWrapper"}
_SYSTEM_CALLS = {"fstat", "listdir", "lstat", "open", "pread", "preadv", "read", "readv", "scandir", "stat"}
_CV2_CALLS = {"imdecode", "imread", "imreadmulti", "VideoCapture", "grab", "retrieve", "read"}


def kind_of_function(frame: FrameType) -> str | None:
    """Return what the Python function of a frame does, or None if it does what its caller does."""
    module = frame.f_globals.get("__name__") or ""
    if _is_in(module, _READING):
        return READING
    if _is_in(module, _DECODING) or (module.startswith("PIL.") and module.endswith("ImagePlugin")):
        return DECODING
    if (module, frame.f_code.co_name) == ("PIL.Image", "open"):
        return DECODING
    return TRANSFORMING if _is_in(module, _TRANSFORMING) else None


def kind_of_builtin(function: Any) -> str | None:
    """Return what a function written in C does, or None if it does what its caller does."""
    owner, name = _owner(function), function.__name__
    found = _BUILTIN_NAMES.get((owner, name))
    if found is not None:
        return found
    module, _, of_type = owner.partition(".")
    if module == "_io":
        return READING if of_type in _FILES and name in _FILE_CALLS else None
    if module in ("posix", "nt"):
        return READING if name in _SYSTEM_CALLS else None
    if module == "cv2":
        return DECODING if name in _CV2_CALLS else TRANSFORMING
    if module == "torch":
        # Operators that torchvision and torchcodec register.
        return DECODING if name.startswith("decode_") else None
    return next((kind for kind, modules in _BUILTINS.items() if module in modules), None)


def _owner(function: Any) -> str:
    if function.__module__ is not None:
        return str(function.__module__)
    kind = type(function.__self__)
    return f"{kind.__module__}.{kind.__name__}"


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return module in packages or any(module.startswith(f"{package}.") for package in packages)


# An observation ends after this many calls, some 20 ms of its time. Observations are this many seconds apart.
_MOST_CALLS = 40_000
_PAUSE = 3.0
# How many calls the cost of an observed call is measured on. Every worker does that, and some live a second.
_TRIALS = 150


class CallTimes:
    """Sums the time in functions that read, decode, transform or wait, by Python's profiling hook.

    ``seconds`` is without the cost of observing. What ``by_kind`` lacks of it is other code.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.by_kind: dict[str, float] = {}
        self._due_at = 0.0
        self._cost: float | None = None
        self._functions: dict[CodeType, str | None] = {}
        self._builtins: dict[tuple[Any, ...], str | None] = {}
        self._clear(0.0)

    def _clear(self, now: float) -> None:
        self._depth = self._calls = self._counted_calls = 0
        # Calls that have begun and not ended, with their depth and the calls around them.
        self._within: list[tuple[int, str | None]] = []
        self._kind: str | None = None
        self._since = now

    def begin(self, now: float) -> bool:
        """Begin an observation of this thread if one is due, and return whether it has begun."""
        if now < self._due_at or sys.getprofile() is not None:
            return False
        if self._cost is None:
            self._cost = _cost_of_a_call()
        self._clear(perf_counter())
        sys.setprofile(self._note)
        return True

    def end(self) -> None:
        """End the observation, unless it has ended by itself."""
        if sys.getprofile() == self._note:
            sys.setprofile(None)
            self._close(perf_counter())

    def _close(self, now: float) -> None:
        self._add(now)
        self._due_at = now + _PAUSE

    def _note(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            kind = self._kind_of_function(frame)
        elif event == "c_call":
            kind = self._kind_of_builtin(function)
        else:
            self._leave()
            return
        self._calls += 1
        if kind is not None and kind is not self._kind:
            self._add(perf_counter())
            self._within.append((self._depth, self._kind))
            self._kind = kind
        self._depth += 1
        if self._calls > _MOST_CALLS:
            sys.setprofile(None)
            self._close(perf_counter())

    def _leave(self) -> None:
        self._depth -= 1
        if self._within and self._within[-1][0] == self._depth:
            self._add(perf_counter())
            self._kind = self._within.pop()[1]

    def _add(self, now: float) -> None:
        """Count the time since the last change for what has been done since."""
        cost = (self._calls - self._counted_calls) * (self._cost or 0.0)
        seconds = max(0.0, now - self._since - cost)
        self._counted_calls, self._since = self._calls, now
        self.seconds += seconds
        if self._kind is not None:
            self.by_kind[self._kind] = self.by_kind.get(self._kind, 0.0) + seconds

    def _kind_of_function(self, frame: FrameType) -> str | None:
        try:
            return self._functions[frame.f_code]
        except KeyError:
            return self._functions.setdefault(frame.f_code, kind_of_function(frame))

    def _kind_of_builtin(self, function: Any) -> str | None:
        key = (function.__module__, type(function.__self__), function.__name__)
        try:
            return self._builtins[key]
        except KeyError:
            return self._builtins.setdefault(key, kind_of_builtin(function))


def _cost_of_a_call() -> float:
    times = CallTimes()

    def take(observe: Callable[..., None] | None) -> float:
        sys.setprofile(observe)
        # Python prepares code for the hook when it first runs, which can take longer than the calls.
        _call(1)
        began = perf_counter()
        _call(_TRIALS)
        seconds = perf_counter() - began
        sys.setprofile(None)
        return seconds

    take(times._note)  # noqa: SLF001 - of this class.
    return max(0.0, min(take(times._note) for _ in range(3)) - min(take(None) for _ in range(3))) / _TRIALS  # noqa: SLF001


def _call(number: int) -> None:
    for _ in range(number):
        _do_nothing()


def _do_nothing() -> None:
    pass


class FetchTimes:
    """The times of a process that makes batches for the loaders of one line: `fetch_*` is without collating."""

    def __init__(self) -> None:
        self.batches = 0
        self.fetch_seconds = self.fetch_cpu = self.collate_seconds = self.collate_cpu = self.others_cpu = 0.0
        self.calls = CallTimes()
        self._collated: tuple[float, float] = (0.0, 0.0)

    def fetch(self, function: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        began, cpu, cpu_of_all = perf_counter(), thread_time(), process_time()
        self._collated = (0.0, 0.0)
        # The first batch imports modules and opens files.
        observed = self.batches > 0 and self.calls.begin(began)
        try:
            batch = function(fetcher, index)
        finally:
            if observed:
                self.calls.end()
        self.batches += 1
        seconds, cpu_seconds = self._collated
        self.fetch_seconds += perf_counter() - began - seconds
        own = thread_time() - cpu
        self.fetch_cpu += own - cpu_seconds
        self.others_cpu += max(0.0, process_time() - cpu_of_all - own)
        self.collate_seconds += seconds
        self.collate_cpu += cpu_seconds
        return batch

    def collate(self, function: Callable[[Any], Any], samples: Any) -> Any:
        self.calls.end()
        began, cpu = perf_counter(), thread_time()
        try:
            return function(samples)
        finally:
            self._collated = (perf_counter() - began, thread_time() - cpu)

    def as_record(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("calls", "_collated")}
        return {**own, "observed_seconds": self.calls.seconds, "observed": dict(self.calls.by_kind)}
