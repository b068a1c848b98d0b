"""What a function that a dataset calls does, by its module and its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["DECODING", "READING", "TRANSFORMING", "WAITING", "kind_of_builtin", "kind_of_function"]

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
        "_bz2",
        "_csv",
        "_json",
        "_lzma",
        "_pickle",
        "av",
        "msgpack",
        "orjson",
        "simplejpeg",
        "zlib",
        "zstandard",
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
    """Return the module of a function in C, or the module and type of a method."""
    if function.__module__ is not None:
        return str(function.__module__)
    kind = type(function.__self__)
    return f"{kind.__module__}.{kind.__name__}"


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return module in packages or any(module.startswith(f"{package}.") for package in packages)
