"""The README's programs run as they stand, and it is short."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")

PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def write_photos(folder: Path, count: int) -> None:
    photos = folder / "photos" / "some"
    photos.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for index in range(count):
        pixels = generator.integers(256, size=(60, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{index:02d}.jpg")


def test_a_pipeline_of_own_functions_loads_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_photos(tmp_path, 3)
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[1], README, "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == f"{3 * 60 * 80 * 3}\n"


def test_the_loader_loads_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torch")
    example, _, imported = PROGRAMS
    write_photos(tmp_path, 70)
    (tmp_path / "photos" / "some" / "broken.jpg").write_bytes(b"no picture")
    monkeypatch.chdir(tmp_path)
    exec(compile(imported, README, "exec"), {})  # noqa: S102

    batches: list[tuple[int, ...]] = []
    namespace = {"collect": lambda images, labels: batches.append((*images.shape, *labels.shape))}
    exec(compile(example.replace("...", "collect(images, labels)"), README, "exec"), namespace)  # noqa: S102

    assert batches == [(32, 3, 224, 224, 32), (32, 3, 224, 224, 32), (7, 3, 224, 224, 7)] * 2
    # It fails in both epochs, and is logged once.
    assert caplog.text.count("broken.jpg") == 1
    state: Any = namespace["state"]
    assert state["epoch"] == 2


def test_it_stays_short_and_says_how_to_install_before_it_shows_off() -> None:
    assert len(TEXT.split()) <= 700
    assert TEXT.index("```python") < TEXT.index("make wheel") < TEXT.index("make demo") < TEXT.index("make test")
    assert re.search(r"^    git clone ADDRESS .*ADDRESS is a placeholder", TEXT, re.MULTILINE)
    tables = re.findall(r"^\| --- .*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert [table.count("\n") for table in tables] == [4]
