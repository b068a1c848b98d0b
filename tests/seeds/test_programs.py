"""The two example programs of the documents, run as they are written there. `programs/` holds them, with headers.

They work on less data, and with one number of workers instead of six, since they would otherwise take an hour. Without
a GPU, PyTorch's `cuda` is replaced to return the tensor itself. Under the marker `cuda` it is PyTorch's own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.io.images import make_jpeg

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.timeout(180)

HERE = Path(__file__).parent
WITHOUT_GPU = "torch.Tensor.cuda = lambda tensor: tensor"
START = """
import runpy, sys, torch
{}
sys.argv = {!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(name: str, *arguments: str, folder: Path, prelude: str = "") -> str:
    text = (HERE / "programs" / f"{name}.py").read_text(encoding="utf-8")
    for written, smaller in (("[1, 2, 4, 8, 16, 32]", "[2]"), ("repeat=1000", "repeat=6")):
        text = text.replace(written, smaller)
    program = folder / f"{name}.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", START.format(prelude, [str(program), *arguments])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE / "stand_in")},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_data_formats_prints_its_table(tmp_path: Path) -> None:
    table = [line.split(",") for line in run("data_formats", folder=tmp_path).splitlines()]
    kinds = [
        ("torch", "False", "torch"),
        ("npy", "False", "np"),
        ("npy", "False", "spdl"),
        ("npz", "False", "np"),
        ("npz", "True", "np"),
        ("npz", "False", "spdl"),
        ("npz", "True", "spdl"),
    ]
    assert [tuple(row[:5]) for row in table] == [(*kind, mode, "2") for kind in kinds for mode in ("mp", "mt")]
    assert all(float(row[5]) > 0 for row in table)


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("imagenet")
    for number in range(12):
        path = root / "val" / f"n{number % 3:08}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make_jpeg(300, 200, seed=number))
    return root


def preprocess(imagenet: Path, folder: Path, prelude: str) -> None:
    arguments = ("--root-dir", str(imagenet), "--batch-size", "4", "--max-items", "3")
    output = run("multi_thread_preprocessing", *arguments, folder=folder, prelude=prelude)
    # Four steps, each first with PyTorch's loader and then with ours: single images, then images in batches.
    assert re.findall(r"^exp_\w+", output, re.MULTILINE) == ["exp_torch_", "exp_spdl_"] * 4
    rows = re.findall(r"^\t2\t *([\d.]+) \((\d+) / *[\d.]+\)$", output, re.MULTILINE)
    assert [int(images) for _, images in rows] == [3, 3, 12, 12, 12, 12, 12, 12]
    assert all(float(rate) > 0 for rate, _ in rows)
    assert "'transfer': True" in output


@pytest.mark.skipif(torch.cuda.is_available(), reason="it runs as written where there is a GPU")
def test_multi_thread_preprocessing_prints_its_tables(imagenet: Path, tmp_path: Path) -> None:
    preprocess(imagenet, tmp_path, WITHOUT_GPU)


@pytest.mark.cuda
def test_multi_thread_preprocessing_as_written(imagenet: Path, tmp_path: Path) -> None:
    preprocess(imagenet, tmp_path, "")
