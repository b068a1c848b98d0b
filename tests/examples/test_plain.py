"""The plain training scripts: the same losses with either loader, and with or without a stop in the middle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from _program.photos import list_photos

pytest.importorskip("torch")

PLAIN = Path(__file__).parents[2] / "examples" / "plain"
EPOCHS = 3
OURS = "from spdl.dataloader import PyTorchDataLoader as DataLoader\n"
TORCHS = "from torch.utils.data import DataLoader\n"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def three_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with real photos of three classes: parts of three pictures."""
    root = tmp_path_factory.mktemp("classes")
    for path, label in list_photos(None):
        if label < 3:
            folder = root / f"class{label}"
            folder.mkdir(exist_ok=True)
            if len(list(folder.iterdir())) < 30:
                (folder / Path(path).name).symlink_to(path)
    return root


def _start(script: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, text=True, stdout=-1, stderr=-1, env=environment)


def _losses(script: Path, *arguments: object) -> list[str]:
    with _start(script, *arguments) as process:
        printed, complaints = process.communicate(timeout=200)
    assert process.returncode == 0, complaints
    return printed.splitlines()


def _assert_same(found: list[str], expected: list[str]) -> None:
    """See that the losses are the same but for rounding.

    On a busy machine PyTorch splits a sum among other numbers of threads, and a tensor may lie at another address, so
    sums differ in the seventh digit. Another picture, or another order, changes the second.
    """
    steps, losses = zip(*(line.rsplit(" ", 1) for line in found), strict=True)
    expected_steps, expected_losses = zip(*(line.rsplit(" ", 1) for line in expected), strict=True)
    assert steps == expected_steps
    assert [*map(float, losses)] == pytest.approx([*map(float, expected_losses)], rel=1e-4)


def test_changing_one_import_changes_no_loss(three_classes: Path, tmp_path: Path) -> None:
    script = PLAIN / "train.py"
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 55
    other = tmp_path / "train.py"
    other.write_text(text.replace(OURS, TORCHS), encoding="utf-8")
    found = _losses(script, three_classes, EPOCHS)
    _assert_same(found, _losses(other, three_classes, EPOCHS))
    assert len(found) == EPOCHS * -(-90 // 8)
    # There is something to learn.
    losses = [float(line.split()[-1]) for line in found]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_a_stop_in_the_middle_of_an_epoch_changes_no_loss(three_classes: Path, tmp_path: Path) -> None:
    script = PLAIN / "train_and_resume.py"
    whole = _losses(script, three_classes, EPOCHS, tmp_path / "none.pt")
    _assert_same(whole, _losses(PLAIN / "train.py", three_classes, EPOCHS))
    checkpoint = tmp_path / "checkpoint.pt"
    found: list[str] = []
    for stop in (3, 9):
        with _start(script, three_classes, EPOCHS, checkpoint) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            found += [process.stdout.readline().rstrip() for _ in range(stop)]
            process.send_signal(signal.SIGTERM)
            # `communicate` would miss what was read ahead.
            found += process.stdout.read().splitlines()
            complaints = process.stderr.read()
        if process.returncode == 0:
            # It was done before the signal came.
            break
        assert re.search("saved: run me again to go on", complaints)
    else:
        found += _losses(script, three_classes, EPOCHS, checkpoint)
    _assert_same(found, whole)


@pytest.mark.parametrize(
    ("name", "words", "complaint"),
    [
        ("train.py", [], "the following arguments are required: FOLDER, EPOCHS"),
        ("train.py", ["photos", "three"], "argument EPOCHS: invalid int value: 'three'"),
        ("train_and_resume.py", [], "the following arguments are required: FOLDER, EPOCHS, CHECKPOINT"),
        ("train_and_resume.py", ["photos", "3"], "the following arguments are required: CHECKPOINT"),
    ],
)
def test_wrong_arguments_are_answered_by_the_right_ones(name: str, words: list[str], complaint: str) -> None:
    with _start(PLAIN / name, *words) as process:
        printed, complaints = process.communicate(timeout=100)
    assert (process.returncode, printed) == (2, "")
    usage, *_, said = complaints.splitlines()
    assert re.match(rf"usage: {name} .*FOLDER EPOCHS", usage)
    assert said == f"{name}: error: {complaint}"


@pytest.mark.parametrize(("name", "words"), [("train.py", ["3"]), ("train_and_resume.py", ["3", "none.pt"])])
def test_a_folder_without_photos_is_told(name: str, words: list[str], tmp_path: Path) -> None:
    with _start(PLAIN / name, tmp_path, *words) as process:
        printed, complaints = process.communicate(timeout=100)
    assert (process.returncode, printed) == (1, "")
    assert complaints == f"There is no {tmp_path}/CLASS/PHOTO.jpg\n"


@pytest.mark.parametrize("name", ["train.py", "train_and_resume.py"])
def test_without_pillow_it_says_what_to_install(name: str, without_pillow: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(without_pillow), *filter(None, sys.path)])}
    command = [sys.executable, str(PLAIN / name), "photos", "3", "checkpoint.pt"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 1
    assert done.stderr == "The photos are decoded with Pillow, which is missing: pip install 'spdl-turbo[demo]'\n"
