"""In the steady state our code allocates nothing per image; libjpeg and FFmpeg allocate what they need.

A library in front of the C library's malloc counts the calls that come from our own code, by the address that they
return to. Where libjpeg is part of that code, as in the wheel, only PNG is looked at.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.io import load_image_batch
from spdl.io.utils import get_entropy_decoder
from tests.io.images import encode, make_image, make_jpeg
from tests.io.processes import ROOT, say

SOURCE = Path(__file__).with_name("allocations.c")

JPEGS = [make_jpeg(100 + seed % 3, 80, seed=seed) for seed in range(48)]
PNGS = [encode(make_image(60, 50), "PNG")] * 48
BOXES = [(index % 7, index % 5, 60 + index % 9, 70) for index in range(48)]
STORAGE = np.zeros(48 * 3 * 32 * 32, "float32")
KEYWORDS: dict[str, dict[str, Any]] = {
    "jpeg": {},
    "float32": {"dtype": "float32", "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)},
    "planes": {"layout": "NCHW"},
    "stretched and upright": {"mode": "stretch"},
    "parts": {"crop": BOXES},
    "scaled by the decoder": {"exact": False},
    "nearest": {"interpolation": "nearest"},
    "png": {},
    "files": {},
}


def code_of(library: str) -> tuple[int, int]:
    """Between which addresses a library lies."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text("utf-8").splitlines() if library in line]
    return int(lines[0][0].split("-")[0], 16), int(lines[-1][0].split("-")[1], 16)


def count(library: ctypes.CDLL, work: Callable[[], object]) -> int:
    for _ in range(3):
        work()
    library.count_from(*map(ctypes.c_size_t, code_of("/_native.")))
    work()
    return int(library.count_so_far())


def load(inputs: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Load them into memory that is there."""
    some = {**keywords, "crop": keywords["crop"][: len(inputs)]} if "crop" in keywords else keywords
    shape = (3, 32, 32) if "layout" in keywords else (32, 32, 3)
    storage = STORAGE.view(keywords.get("dtype", "uint8"))[: len(inputs) * 3 * 32 * 32]
    load_image_batch(inputs, width=32, height=32, storage=storage.reshape(len(inputs), *shape), **some)


def report(folder: str) -> None:
    """Print how many allocations a call makes for a third of the images, and for all of them."""
    library = ctypes.CDLL(None)
    library.count_so_far.restype = ctypes.c_long
    files = []
    for index, data in enumerate(JPEGS):
        files.append(str(Path(folder, f"{index}.jpg")))
        Path(files[-1]).write_bytes(data)
    counts = {}
    for name, keywords in KEYWORDS.items():
        inputs: Sequence[Any] = PNGS if name == "png" else files if name == "files" else JPEGS
        counts[name] = [count(library, partial(load, inputs[:images], keywords)) for images in (16, 48)]
    say(json.dumps(counts))


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler to make the library that counts with")
    library = tmp_path_factory.mktemp("allocations") / "allocations.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(library), str(SOURCE)], check=True)
    return library


def test_an_image_costs_no_allocation_of_ours(counter: Path, tmp_path: Path) -> None:
    program = f"from {__name__} import report; report({str(tmp_path)!r})"
    environment = {**os.environ, "LD_PRELOAD": str(counter)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert set(counts) == set(KEYWORDS)
    ours = {"png"} if get_entropy_decoder() == "own" else set(KEYWORDS)
    for name, (some, all_of_them) in counts.items():
        if name not in ours:
            continue
        assert 0 < some < 60, name  # It counts.
        assert all_of_them == some, f"{name}: {(all_of_them - some) / 32} allocations for each image"
