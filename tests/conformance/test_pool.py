"""A process that crashes, hangs or uses up its memory costs one file, and is named."""

import sys
from pathlib import Path

import pytest

from tests.conformance.pool import Worker, examine_all
from tests.io.images import encode, make_image

# Real workers, in which a way to read PNG does what a file's name says.
PLANTED = """
import os, signal, time
import numpy as np
from spdl.io import load_image
from tests.conformance import worker
from tests.conformance.examine import SUBJECTS, Subject

def obey(path, data):
    match path.stem:
        case "crash": os.kill(os.getpid(), signal.SIGSEGV)
        case "leave": os._exit(3)
        case "hang": time.sleep(600)
        case "bloat": np.ones(1 << 33, np.uint8)
        case "print":
            os.write(1, b"not an answer\\n")
            print("neither", flush=True)
    return {"stored": np.zeros(1)}

SUBJECTS["PNG"] = Subject(lambda path, data: {"stored": np.zeros(1)}, {"obey": obey}, ("RuntimeError",))
worker.main()
"""
COMMAND = (sys.executable, "-c", PLANTED)


@pytest.fixture
def png(tmp_path: Path) -> bytes:
    return encode(make_image(9, 7), "PNG")


def test_files_that_end_a_process_are_named(tmp_path: Path, png: bytes) -> None:
    names = ["sound", "crash", "leave", "bloat", "print", "last"]
    files = [("PNG", tmp_path / f"{name}.png") for name in names]
    for _, path in files:
        path.write_bytes(png)
    found = {path.stem: result for path, result in examine_all(files, 2, COMMAND)}
    assert list(found) == names
    assert found["crash"] == {"failure": "ended with SIGSEGV", "reader": "obey"}
    assert found["leave"] == {"failure": "ended with status 3", "reader": "obey"}
    assert found["bloat"]["ways"]["obey"]["outcome"] == "failed"
    assert found["bloat"]["ways"]["obey"]["ours"].startswith("MemoryError: Unable to allocate 8.00 GiB")
    for name in ("sound", "print", "last"):
        assert found[name] == {
            "ways": {"obey": {"outcome": "equal", "ours": "", "theirs": "", "largest": None, "mean": None}}
        }


def test_a_file_that_takes_too_long_is_named(tmp_path: Path, png: bytes) -> None:
    path = tmp_path / "hang.png"
    path.write_bytes(png)
    ((_, result),) = examine_all([("PNG", path)], 1, COMMAND, 5)
    assert result == {"failure": "did not end within 5 seconds", "reader": "obey"}


def test_real_workers_read(tmp_path: Path, png: bytes) -> None:
    (tmp_path / "sound.png").write_bytes(png)
    (tmp_path / "broken.png").write_bytes(png[:40])
    files = [("PNG", tmp_path / "sound.png"), ("PNG", tmp_path / "broken.png")]
    outcomes = [{way["outcome"] for way in result["ways"].values()} for _, result in examine_all(files, 1)]
    assert outcomes == [{"equal"}, {"both refuse"}]


def test_a_worker_that_does_not_start_is_an_error() -> None:
    worker = Worker((sys.executable, "-c", "raise SystemExit(4)"))
    with pytest.raises(RuntimeError, match="the worker did not start: ended with status 4"):
        worker.examine("PNG", Path("a.png"))
    worker.close()


def test_the_rest_is_not_read_if_nobody_asks(tmp_path: Path, png: bytes) -> None:
    path = tmp_path / "sound.png"
    path.write_bytes(png)
    results = examine_all([("PNG", path)] * 4, 1, COMMAND)
    assert next(iter(results))[0] == path
    results.close()
