"""The benchmarks of video and audio: their rows hold together, and their works measure what a reader does."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.importing import importable
from tests.io.av.media import clip

import spdl.io

WORK = Path(__file__).parents[2] / "benchmarks" / "_media_work"

READER = """
from functools import partial
from threads import in_threads

def load(path, size):
    return 5

decode = partial(load, size=0)

def opened(path):
    return 100, lambda indices: [index for index in indices if 0 <= index < 100]

def first(data):
    assert data == b"clip"

def _clips(task):
    starts = task.starts(40)
    assert starts == sorted(starts) and 0 <= starts[0] and starts[-1] + 16 <= 40
    return len(starts)

LOADERS = {"threads": lambda tasks, workers: in_threads(_clips, tasks, workers)}
"""


@pytest.fixture(scope="module")
def rows() -> Iterator[ModuleType]:
    with importable("benchmarks"):
        yield importlib.import_module("_media_rows")


def work(folder: Path, **arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(WORK), json.dumps(arguments | {"folder": str(folder)})]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "a.mp4").write_bytes(b"clip")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "b.mp4").write_bytes(b"clip")
    return tmp_path


@pytest.mark.parametrize("cores", [2, 16])
def test_claims_are_about_contenders_of_the_row(rows: ModuleType, cores: int) -> None:
    environments = importlib.import_module("_media_environments").MEDIA_MAKERS
    table = rows.video_rows(cores) | rows.audio_rows()
    assert len(table) == 10
    for row in table.values():
        assert {it.environment for it in row.contenders.values()} <= environments.keys()
        assert row.claims
        for claim in row.claims:
            assert {claim.of, claim.beside} <= row.contenders.keys()


def test_each_contender_has_what_its_work_calls(rows: ModuleType) -> None:
    calls = {
        "whole": "load",
        "filtered": "filtered",
        "by_calls": "by_calls",
        "decoded": "decode",
        "picked": "opened",
        "first": "first",
        "clips": "LOADERS",
    }
    table = rows.video_rows(2) | rows.audio_rows()
    for contender in (it for row in table.values() for it in row.contenders.values()):
        module, _, name = contender.work["work"].partition(".")
        assert f"def {name}(" in (WORK / f"{module}.py").read_text()
        wanted = "sound" if module == "audio_work" else calls[name]
        text = (WORK / f"{contender.work['reader']}.py").read_text()
        assert f"def {wanted}(" in text or f"{wanted} = " in text
        assert name != "clips" or f'"{contender.work["loader"]}"' in text


@pytest.mark.parametrize("name", ["whole", "decoded", "picked", "first"])
def test_work_prints_its_figures(name: str, folder: Path) -> None:
    done = work(folder, work=f"video_work.{name}", reader="reader", clip="a.mp4", times=300, workers=1)
    assert not done.returncode, done.stderr
    figures = json.loads(done.stdout)
    assert all(value > 0 for value in figures.values())
    assert figures.get("frames", 5) == 5


def test_whole_loaders_load_clips_of_all_files(folder: Path) -> None:
    arguments = {"reader": "reader", "loader": "threads", "workers": 2}
    done = work(folder, work="video_work.clips", files=500, **arguments)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout)["clips_per_second"] > 0


def test_too_few_frames_are_refused(folder: Path) -> None:
    (folder / "reader.py").write_text(READER.replace("0 <= index < 100", "index < 50"))
    done = work(folder, work="video_work.picked", reader="reader", clip="a.mp4", times=300, workers=1)
    assert "another number of frames came" in done.stderr


@pytest.mark.parametrize("name", ["whole", "by_calls", "filtered", "decoded", "picked", "first"])
def test_ours_does_the_work_or_says_what_it_lacks(name: str) -> None:
    path = clip("h264.mp4")
    chosen = {"interpolation": "bicubic"} if name in ("whole", "by_calls") else {}
    arguments: dict[str, Any] = {"clip": path.name, "times": 3, "workers": 1, **chosen}
    done = work(path.parent, work=f"video_work.{name}", reader="spdl_reader", **arguments)
    if hasattr(spdl.io, "Demuxer"):
        assert not done.returncode, done.stderr
        assert json.loads(done.stdout)["peak_mib"] > 0
    else:
        assert "this version of spdl has no spdl.io." in done.stderr
