import logging
import threading
import time
from pathlib import Path

import pytest
from tests.observe.export.exposition import parse
from tests.observe.export.observed import Told, stage, told

from spdl.observe import PrometheusFile
from spdl.pipeline import PipelineStatistics


def completed(path: Path) -> float:
    (sample,) = parse(path.read_text(encoding="utf-8"))["spdl_stage_items_total"].samples
    return sample.value


def test_it_is_written_at_once_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "spdl.prom"
    observed = told(stage("sink", num_completed=1))
    with PrometheusFile(observed, path, interval=1000):
        assert completed(path) == 1
        observed.now = told(stage("sink", num_completed=2)).now
        assert completed(path) == 1
    assert completed(path) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["spdl.prom"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_it_is_written_at_intervals(tmp_path: Path) -> None:
    path = tmp_path / "spdl.prom"
    observed = told(stage("sink", num_completed=1))
    with PrometheusFile(observed, path, interval=0.01):
        observed.now = told(stage("sink", num_completed=2)).now
        deadline = time.monotonic() + 60
        while completed(path) != 2:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "spdl.prom"
    observed = told(*(stage(f"stage {number}") for number in range(50)))
    stopped = threading.Event()
    with PrometheusFile(observed, path, interval=1000) as file:
        size = path.stat().st_size

        def write() -> None:
            while not stopped.is_set():
                file.write()

        writer = threading.Thread(target=write)
        writer.start()
        sizes = {len(path.read_bytes()) for _ in range(2000)}
        stopped.set()
        writer.join()
    assert sizes == {size}


class Failing:
    def __init__(self) -> None:
        self.asked = 0

    def statistics(self) -> PipelineStatistics:
        self.asked += 1
        if 1 < self.asked < 5:
            raise RuntimeError("not now")
        return told(stage("sink", num_completed=self.asked)).now


def test_what_fails_in_between_is_logged_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "spdl.prom"
    with caplog.at_level(logging.ERROR), PrometheusFile(Failing(), path, interval=0.01):
        deadline = time.monotonic() + 60
        while completed(path) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert [record.getMessage() for record in caplog.records] == [
        "spdl_prometheus_file could not do its work; it tries again"
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["spdl.prom"]


def test_a_folder_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        PrometheusFile(told(stage("sink")), tmp_path / "nowhere" / "spdl.prom")


def test_one_that_is_gone_is_said_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = PrometheusFile(told(stage("sink")), folder / "spdl.prom", interval=1000)
    (folder / "spdl.prom").unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        file.close()
    file.close()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    observed: Told = told(stage("sink"))
    with pytest.raises(TypeError, match="`path` must be a path"):
        PrometheusFile(observed, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`interval` must be a finite number of seconds, more than 0"):
        PrometheusFile(observed, tmp_path / "x", interval=0)
