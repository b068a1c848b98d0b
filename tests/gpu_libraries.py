"""A pytest plugin: a whole GPU made of main memory, with stand-ins for nvJPEG and NVRTC over the one for the driver.

The kernels are the real ones, compiled for the processor. What nvJPEG would decode, FFmpeg decodes, so that the pixels
come from somewhere else than from the path that they are compared with.
"""

import ctypes
import gc
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.io import (
    convert_frames,
    cuda_config,
    decode_config,
    decode_packets,
    demux_image,
    load_image_batch_nvjpeg,
    to_numpy,
)
from spdl.io.utils import cuda_info
from tests.cpu_kernels import compile_kernels
from tests.cuda_driver import FakeDriver, find_compiler
from tests.io.images import make_jpeg
from tests.io.inside import kernel_source

FOLDER = Path(__file__).parent
PLANES = 3
KEPT = 4


class Decoded(ctypes.Structure):
    """The planes that are decoded, as fake_nvjpeg.c takes them."""

    _fields_ = (
        ("count", ctypes.c_int),
        ("width", ctypes.c_int * PLANES),
        ("height", ctypes.c_int * PLANES),
        ("plane", ctypes.c_void_p * PLANES),
    )


def decode_planes(data: bytes) -> list[Any]:
    """Return the planes of a JPEG as they are stored, from FFmpeg."""
    config = decode_config(backend="ffmpeg")
    gray = demux_image(data).pix_fmt == "gray"
    filters = [None] if gray else [f"extractplanes={plane}" for plane in "yuv"]
    planes = [to_numpy(convert_frames(decode_packets(demux_image(data), each, config))) for each in filters]
    return [np.ascontiguousarray(plane[..., 0]) for plane in planes]


class Video(ctypes.Structure):
    """A video, as fake_nvcuvid.c takes it."""

    _fields_ = (
        ("frames", ctypes.c_void_p),
        ("times", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("count", "width", "height", "sample_bytes")),
        *((name, ctypes.c_int) for name in ("supported", "bits", "chroma", "reorder", "matrix", "full_range")),
        *((name, ctypes.c_int) for name in ("shown_width", "shown_height", "damaged", "surfaces")),
    )


class FakeGpu:
    """The settings and counters of the libraries in fake_*.c."""

    def __init__(self, driver: FakeDriver, folder: Path) -> None:
        self.driver = driver
        self.environment = {
            "SPDL_TEST_NVJPEG": str(folder / "fake_nvjpeg.so"),
            "SPDL_TEST_NVRTC": str(folder / "fake_nvrtc.so"),
            "SPDL_TEST_NVCUVID": str(folder / "fake_nvcuvid.so"),
            "SPDL_TEST_KERNELS": str(folder / "libkernels.so"),
            "XDG_CACHE_HOME": str(folder),
        }
        self._jpeg = ctypes.CDLL(self.environment["SPDL_TEST_NVJPEG"])
        self._jpeg.fake_jpeg_alive.restype = ctypes.c_long
        self._video = ctypes.CDLL(self.environment["SPDL_TEST_NVCUVID"])
        for name in ("decoders", "parsers", "mapped"):
            getattr(self._video, f"fake_video_{name}").restype = ctypes.c_long
        self._decode = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Decoded))(
            self._decode_jpeg
        )
        self._thread = threading.local()
        self._kept: list[Any] = []
        self.set_jpeg()

    def set_jpeg(self, *, hardware: bool = True, takes: int = 1 << 40) -> None:
        """Say whether the chip has a JPEG engine, and how many bytes of a JPEG it takes."""
        self._jpeg.fake_jpeg_set(self._decode, int(hardware), ctypes.c_size_t(takes))

    @property
    def jpeg_objects(self) -> int:
        return int(self._jpeg.fake_jpeg_alive())

    def set_video(self, frames: Any, times: list[int], keys: list[bool] | None = None, **settings: int) -> None:
        """Say which frames a video has, as they are shown, at which ticks of its clock, and which are key frames.

        Frames are uint8 in NV12, or uint16 in P016. Settings are the number of bits, the chroma format, how many
        pictures wait to be shown, whether the chip decodes it and to which surfaces, how the colours are coded, which
        frame is damaged, and the size that is shown if it is less.
        """
        count, rows, width = frames.shape
        what = {"supported": 1, "bits": 8, "chroma": 1, "reorder": 3, "matrix": 2, "full_range": 0, "surfaces": 3}
        what |= {"shown_width": width, "shown_height": rows * 2 // 3, "damaged": -1, **settings}
        kept = (np.ascontiguousarray(frames), np.array(times, np.int64), np.array(keys or [True] * count, np.uint8))
        self._kept = list(kept)
        video = Video(*(each.ctypes.data for each in kept), count, width, rows * 2 // 3, frames.dtype.itemsize, **what)
        self._video.fake_video_set(ctypes.byref(video))

    def video_objects(self, kind: str) -> int:
        """Return how many `decoders`, `parsers` or `mapped` frames there are."""
        return int(getattr(self._video, f"fake_video_{kind}")())

    def _decode_jpeg(self, data: int, length: int, decoded: Any) -> int:
        try:
            planes = decode_planes(ctypes.string_at(data, length))
        except RuntimeError:
            return 3
        self._thread.kept = planes
        decoded.contents.count = len(planes)
        for number, plane in enumerate(planes):
            decoded.contents.height[number], decoded.contents.width[number] = plane.shape
            decoded.contents.plane[number] = plane.ctypes.data
        return 0


@pytest.fixture(scope="session")
def loaded_fake_gpu(loaded_fake_cuda: FakeDriver, tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    """Return the libraries, loaded into this process."""
    folder = tmp_path_factory.mktemp("gpu")
    compiler = find_compiler()
    for name in ("fake_nvjpeg", "fake_nvrtc", "fake_nvcuvid"):
        options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
        source, library = FOLDER / f"{name}.c", folder / f"{name}.so"
        command = [compiler, *options, "-o", str(library), str(source), str(loaded_fake_cuda.path)]
        subprocess.run([*command, f"-Wl,-rpath,{loaded_fake_cuda.path.parent}"], check=True, timeout=60)
    compile_kernels(compiler, kernel_source(), folder)
    gpu = FakeGpu(loaded_fake_cuda, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in gpu.environment.items():
            patch.setenv(name, value)
        # The first image is the check that the GPU makes the pixels of the CPU.
        load_image_batch_nvjpeg([make_jpeg()], device_config=cuda_config(0), width=8, height=8)
        assert cuda_info().nvcuvid.usable
    return gpu


@pytest.fixture
def fake_gpu(loaded_fake_gpu: FakeGpu, fake_cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    """Return a GPU that decodes. What `fake_cuda` detects, it does too."""
    assert fake_cuda is loaded_fake_gpu.driver
    for name, value in loaded_fake_gpu.environment.items():
        monkeypatch.setenv(name, value)
    loaded_fake_gpu.set_jpeg()
    yield loaded_fake_gpu
    loaded_fake_gpu.set_jpeg()
    gc.collect()
    assert loaded_fake_gpu.video_objects("parsers") == 0
    assert loaded_fake_gpu.video_objects("mapped") == 0
    # Those that are kept for the next video.
    assert loaded_fake_gpu.video_objects("decoders") <= KEPT
