import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import NUM_PHOTOS
from tests.cli.running import run, running

from spdl.cli import main

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

QUICK = ["--no-peers", "--seconds", "0.5", "--batch-size", "5", "--size", "32"]


def bench(folder: Path, json_file: Path, *more: str) -> dict[str, Any]:
    assert main(["bench", "images", str(folder), *QUICK, "--json", str(json_file), *more]) == 0
    figures: dict[str, Any] = json.loads(json_file.read_text())
    return figures


def test_the_figures_agree_with_each_other(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    figures = bench(photos, tmp_path / "figures.json", "--workers", "2")
    run = figures["live_run"]

    assert figures["job"]["files"] == NUM_PHOTOS
    assert (figures["job"]["batch_size"], figures["job"]["size"]) == (5, 32)
    assert figures["comparison"] is None
    # Every item begun is delivered, and every file once per pass of 4 whole batches and one of 4 images.
    assert run["images"] == run["files_read"] >= NUM_PHOTOS
    passes, images_of_last_pass = divmod(run["images"], NUM_PHOTOS)
    assert run["batches"] == 5 * passes + images_of_last_pass // 5
    assert (run["files_failed"], run["failures"], run["interrupted"]) == (0, {}, False)

    source, load, sink = run["stages"]
    assert source["num_completed"] == load["num_completed"] == sink["num_completed"] == run["batches"]
    assert (load["name"], load["concurrency"], run["workers"]) == ("load_image_batch", 2, 2)
    assert 0 < load["busy_share"] <= 1
    assert 0 <= load["queue_fill"] <= 1
    assert load["items_per_second"] >= 0.7 * run["batches"] / run["seconds"]
    assert run["images_per_second"] == pytest.approx(run["images"] / run["seconds"])
    assert run["cpu_seconds_per_image"] == pytest.approx(run["cpu_seconds"] / run["images"])
    assert 0 < run["first_batch_seconds"] <= run["seconds"]
    assert 0 < run["cpu_seconds"] <= run["seconds"] * ((os.cpu_count() or 1) + 1)
    assert 10 * 2**20 < run["peak_memory_bytes"] < 2**34
    assert run["bottleneck"].endswith(".")
    assert figures["provenance"]["versions"]["spdl-turbo"]

    output = capsys.readouterr()
    assert output.err == ""
    assert run["bottleneck"] in output.out
    assert f"({run['images']:,} images in " in output.out
    assert "load_image_batch" in output.out
    # --no-peers writes no report.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.json"]


def test_figures_on_standard_output_are_all_that_is_there(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "images", str(photos), *QUICK, "--json", "-"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["job"]["files"] == NUM_PHOTOS
    assert "bottleneck" in output.err


def test_some_corrupt_files(spoil: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = spoil(7)
    (folder / "spoilt-0.jpg").write_bytes(b"")
    # However late it is, one batch is read.
    figures = bench(folder, tmp_path / "figures.json", "--workers", "1", "--batch-size", "13")
    run = figures["live_run"]
    spoilt = {str(folder / f"spoilt-{index}.jpg") for index in range(7)}
    assert set(run["failures"]) == spoilt
    # A reason is about its own file, and does not repeat the name that stands in front of it.
    for reason in run["failures"].values():
        assert reason
        assert str(folder) not in reason
        assert "\n" not in reason
    assert run["files_failed"] >= 7
    assert run["failures"][str(folder / "spoilt-0.jpg")] != run["failures"][str(folder / "spoilt-1.jpg")]
    assert run["images"] == run["files_read"] - run["files_failed"] >= 6
    # Later passes leave out what has failed: only those that had begun before that was known have it again.
    assert run["files_failed"] <= 7 * 8

    lines = capsys.readouterr().out.splitlines()
    assert "failed           7 files of 13 that were read, the others were loaded:" in lines
    assert sum(line.startswith(f"  {folder}/spoilt-") for line in lines) == 5
    assert "  and 2 more (--json FILE lists them all)" in lines


@pytest.mark.parametrize("batch_size", ["1", "2", "32"])
def test_no_file_that_is_whole(batch_size: str, spoil: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = spoil(3, num_whole=0)
    # A folder that yields nothing is not read over and over until the time is over.
    assert main(["bench", "images", str(folder), "--no-peers", "--seconds", "3600", "--batch-size", batch_size]) == 2
    error = capsys.readouterr().err
    whole = rf"spdl: none of the first [123] of 3 images in {re.escape(str(folder))} could be loaded, for instance "
    assert re.match(whole, error)
    assert error.endswith(" Give a folder with intact images.\n")
    # The reason does not repeat the name that stands in front of it.
    assert (error.count("\n"), error.count(str(folder))) == (1, 2)


def test_files_that_were_not_tried_are_not_told_to_be_broken(
    spoil: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = spoil(500, num_whole=0)
    assert main(["bench", "images", str(folder), "--no-peers", "--seconds", "0.001", "--batch-size", "1"]) == 2
    tried = re.search(r"none of the first (\d+) of 500 images in ", capsys.readouterr().err)
    assert tried is not None
    assert 0 < int(tried[1]) < 500


def test_a_pipeline_that_fails_says_why(photos: Path) -> None:
    broken = "import spdl.io\ndef broken(*_, **__): raise SystemExit('no more')\nspdl.io.load_image_batch = broken"
    done = run("bench", "images", photos, "--no-peers", before=broken)
    assert done.returncode == 1
    why = "the pipeline failed: RuntimeError: A stage raised SystemExit, which stops the pipeline: no more"
    assert why in done.stderr


def test_the_only_file_is_not_whole(spoil: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = spoil(1, num_whole=0)
    assert main(["bench", "images", str(folder), "--no-peers"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"spdl: none of the first 1 of 1 image in {folder} could be loaded, for instance {folder}/")
    assert error.endswith(" Give a folder with intact images.\n")
    # The reason does not repeat the name that stands in front of it.
    assert (error.count("\n"), error.count(str(folder))) == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--json", "no/such/figures.json"], "--json no/such/figures.json cannot be written: name a file in a folder"),
        (["--json", "."], "--json . cannot be written: name a file in a folder"),
        (["--report", "taken/report"], "--report taken/report cannot be made (Not a directory): name a folder."),
        (["--report", "taken"], "--report taken cannot be made (File exists): name a folder."),
        (["--size", "1000000"], "6 batches of 32 images of 1000000x1000000 take 549,316,406 MiB, this machine has "),
    ],
)
def test_what_cannot_end_well_is_refused_at_once(
    arguments: list[str],
    complaint: str,
    *,
    photos: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "images", str(photos), "--workers", "2", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"spdl: {complaint}")
    assert output.err.count("\n") == 1


def test_ctrl_c_keeps_what_was_measured(photos: Path, tmp_path: Path) -> None:
    arguments = ["bench", "images", str(photos), *QUICK, "--seconds", "3600", "--json", str(tmp_path / "figures.json")]
    with running(*arguments) as process:
        assert process.stdout is not None
        while not re.match(r" {3}\d+\.\d s  [1-9][\d,]* images  ", process.stdout.readline()):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert error == ""
    # Output that is no terminal is plain text.
    assert output.isascii()
    assert [character for character in output if ord(character) < 32 and character != "\n"] == []
    assert "interrupted: the figures cover the run up to then" in output
    run = json.loads((tmp_path / "figures.json").read_text())["live_run"]
    assert run["interrupted"]
    assert run["images"] > 0
