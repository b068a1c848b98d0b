"""Other libraries that bundle FFmpeg or libjpeg share a process with ours, and every order of imports decodes."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.io.images import encode, make_image, write_jpegs
from tests.wheel.conftest import cannot

# The first import of a CUDA build reads gigabytes from the disk.
pytestmark = pytest.mark.timeout(300)

# Each program imports one library and decodes with it.
DECODES = {
    "av": "import av; assert next(av.open(PNG).decode(video=0)).width == 64",
    "cv2": "import cv2; assert cv2.imread(JPEG).shape == (48, 64, 3)",
    "torch": "import torch; assert torch.ones(3).sum() == 3",
    "spdl.io": (
        "import spdl.io\n"
        "assert spdl.io.load_image(PNG, filter_desc='hflip,format=rgb24').shape == (48, 64, 3)\n"
        "assert spdl.io.load_image_batch([JPEG, PNG], width=32, height=24).shape == (2, 24, 32, 3)\n"
    ),
}

# The libraries that must be installed. A release is tested with all that have wheels for its Python.
WANTED = os.environ.get("SPDL_IMPORT_ORDER", "").split()
FOUND = [name for name in DECODES if importlib.util.find_spec(name) is not None]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("media")
    (jpeg,) = write_jpegs(folder, 1, 64, 48)
    png = folder / "image.png"
    png.write_bytes(encode(make_image(64, 48), "PNG"))
    return f"JPEG, PNG = {jpeg!r}, {str(png)!r}\n"


def run(program: str, folder: Path) -> None:
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_libraries_that_are_wanted_are_there() -> None:
    assert set(WANTED) <= set(FOUND)


@pytest.mark.parametrize("order", list(itertools.permutations(FOUND)), ids="-".join)
def test_every_order_of_imports_decodes(order: tuple[str, ...], media: str, tmp_path: Path) -> None:
    steps = [DECODES[name] for name in order]
    # Run the steps once more after all libraries are loaded.
    run(media + "\n".join([*steps, *steps]), tmp_path)


@pytest.mark.skipif("av" not in FOUND, reason="needs PyAV")
@pytest.mark.parametrize("order", [("av", "spdl.io"), ("spdl.io", "av")], ids="-".join)
def test_symbols_of_another_ffmpeg_open_to_all_do_no_harm(order: tuple[str, ...], media: str, tmp_path: Path) -> None:
    steps = [DECODES[name] for name in order]
    visible = "import os, sys; sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)\n"
    run(visible + media + "\n".join([*steps, *steps]), tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("torchcodec") is None, reason="needs torchcodec")
@pytest.mark.parametrize("ours_first", [True, False])
def test_torchcodec_beside_ours(ours_first: bool, media: str, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter.
    alone = subprocess.run([sys.executable, "-c", "import torchcodec"], check=False, capture_output=True, text=True)
    if (missing := re.search(r"libavdevice\S+: cannot open shared object file", alone.stderr)) is not None:
        cannot(f"torchcodec takes its FFmpeg from the system, which lacks a part: {missing[0]}")
    theirs = textwrap.dedent("""
        import io, av
        from torchcodec.decoders import VideoDecoder
        stream = io.BytesIO()
        with av.open(stream, "w", format="mp4") as container:
            video = container.add_stream("mpeg4", rate=5)
            video.width, video.height = 64, 48
            for _ in range(3):
                container.mux(video.encode(av.VideoFrame(64, 48, "yuv420p")))
            container.mux(video.encode())
        assert VideoDecoder(stream.getvalue())[0].shape == (3, 48, 64)
    """)
    steps = [DECODES["spdl.io"], theirs]
    steps = steps if ours_first else steps[::-1]
    run(media + "\n".join([*steps, *steps]), tmp_path)
