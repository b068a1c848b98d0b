"""Each program runs on small data: it prints its table, writes its record, draws its plot and leaves nothing behind."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from PIL import Image

from _program import progress
from _program.plots import colours_of
from tests.examples.scripts import load_script

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("torch")

example_pages = load_script("example_pages")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

Row = dict[str, Any]


class Expected(NamedTuple):
    """The expected output of a quick run of a program.

    Attributes:
        header: A line of the output.
        rows: How many rows the record has.
        figure: A figure that each row has, above zero.
        takes_photos: The option that takes a folder of photos.
        holds: A further condition on the rows.
    """

    header: str
    rows: int
    figure: str
    takes_photos: str | None = None
    holds: Callable[[list[Row]], bool] = bool


def _training_adds_up(rows: list[Row]) -> bool:
    return all(
        row["images"] / row["images_per_second"]
        == pytest.approx((row["data_ms"] + row["step_ms"]) * row["images"] / 16e3)
        for row in rows
    )


def _eight_images(rows: list[Row]) -> bool:
    return all(row["images"] == 8 for row in rows)


def _headspace_is_the_quotient(rows: list[Row]) -> bool:
    return all(row["headspace"] == row["cached_images_per_second"] / row["images_per_second"] for row in rows)


def _shares_are_shares(rows: list[Row]) -> bool:
    return all(0 <= row[key] <= 1 for row in rows for key in ("held_out", "accuracy", "data_share"))


def _loss_falls(rows: list[Row]) -> bool:
    return bool(rows[-1]["loss"] < rows[0]["loss"])


def _losses_are_the_same(rows: list[Row]) -> bool:
    return all(row["loss"] == row["resumed_loss"] for row in rows)


PROGRAMS = {
    "data_formats": Expected(
        "npz,True,spdl,mt,2,", 14, "items_per_second", holds=lambda rows: all(row["items"] == 8 for row in rows)
    ),
    "headspace": Expected("threads  images/s  data ms", 1, "images_per_second", "--photos", _headspace_is_the_quotient),
    "image_classification": Expected("epoch  images/s  data ms", 2, "images_per_second", "--photos", _training_adds_up),
    "migration": Expected(
        "batch  workers  images/s",
        5,
        "images_per_second",
        "--root-dir",
        _eight_images,
    ),
    "multi_thread_preprocessing": Expected(
        "\tnum_workers\tFPS",
        9,
        "images_per_second",
        "--root-dir",
        _eight_images,
    ),
    "video_classification": Expected("epoch  clips/s", 2, "clips_per_second", None, _shares_are_shares),
    "audio_keywords": Expected("epoch  sounds/s", 2, "sounds_per_second", None, _shares_are_shares),
    "self_supervised": Expected("epoch  photos/s", 2, "images_per_second", "--photos", _loss_falls),
    "resume_training": Expected("step      loss  when resumed", 8, "loss", "--photos", _losses_are_the_same),
    "pretrain_text": Expected("step      loss  when killed and resumed", 12, "loss", None, _losses_are_the_same),
    "noisy_neighbour": Expected(
        "neighbours  steps/s", 6, "steps_per_second", holds=lambda rows: all(row["p99_ms"] > 0 for row in rows)
    ),
    "npz_training": Expected(
        "way             batches/s",
        4,
        "batches_per_second",
        holds=lambda rows: all(len(row["seconds"]) == 6 for row in rows),
    ),
}


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program as a user does."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL)


def call(name: str, *arguments: str | Path) -> None:
    """Call a program's `main` here, where the libraries that take seconds to import are already imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        importlib.import_module(name).main()


def check(name: str, expected: Expected, stdout: str, record_file: Path, picture: Path) -> None:
    assert any(line.startswith(expected.header) for line in stdout.splitlines()), stdout
    record = json.loads(record_file.read_text())
    rows = record["rows"]
    assert len(rows) == expected.rows
    assert all(row[expected.figure] > 0 for row in rows)
    assert expected.holds(rows), rows
    assert record["quick"] is True
    shown = example_pages.section(name, record)
    assert shown.count("\n* ") > 0, shown
    assert "nan" not in shown
    assert "; one round." in shown
    assert record["provenance"]["cores"] > 0
    assert record["provenance"]["versions"]["torch"]
    with Image.open(picture) as image:
        assert image.format == "PNG"
        # A page of a single colour has no curve on it.
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 20


def assert_tells_of_progress(errors: str) -> None:
    """Check that standard error holds plain lines of progress and nothing else."""
    lines = errors.splitlines()
    assert len(lines) > 1
    for line in lines:
        assert re.fullmatch(r"(round|epoch|run) \d+( of \d+)?([,:] [ -~]+)?", line), errors


def test_every_program_is_tested() -> None:
    assert sorted(PROGRAMS) == NAMES


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", PROGRAMS)
def test_quick_run(name: str, photos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = PROGRAMS[name]
    record, picture = tmp_path / "record.json", tmp_path / "picture.png"
    folder: list[str | Path] = [expected.takes_photos, photos] if expected.takes_photos else []
    call(name, "--quick", "--json", record, "--plot", picture, *folder)
    output = capfd.readouterr()
    assert_tells_of_progress(output.err)
    check(name, expected, output.out, record, picture)


@pytest.mark.timeout(400)
def test_a_program_runs_as_users_run_it(photos: Path, tmp_path: Path) -> None:
    record, picture = tmp_path / "record.json", tmp_path / "picture.png"
    done = run("headspace", "--quick", "--json", record, "--plot", picture, "--photos", photos)
    assert done.returncode == 0, done.stderr
    assert_tells_of_progress(done.stderr)
    check("headspace", PROGRAMS["headspace"], done.stdout, record, picture)


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_what_the_program_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        call(name, "--help")
    shown = capsys.readouterr().out
    for option in ("--json", "--plot", "--quick", "--rounds"):
        assert option in shown
    purpose = " ".join(shown.partition("\n\n")[2].partition("\n\n")[0].split())
    source = (EXAMPLES / f"{name}.py").read_text()
    assert purpose in " ".join(source.split())
    assert len(purpose) > 50


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plot", "picture.gif"], "must end in .png"),
        (["--json", "no/such/folder/record.json"], "must name a file in an existing folder"),
        (["--rounds", "0"], "must be a whole number of at least 1, got '0'"),
        (["--rounds", "two"], "must be a whole number of at least 1, got 'two'"),
        (["--workers", "2", "0"], "must be a whole number of at least 1, got '0'"),
        (["--repeat", "-1"], "must be a whole number of at least 1, got '-1'"),
    ],
)
def test_mistakes_on_the_command_line_are_told_at_once(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        call("data_formats", *arguments)
    assert complaint in capsys.readouterr().err


def test_a_number_of_neighbours_that_is_none_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        call("noisy_neighbour", "--neighbours", "1", "x")
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.endswith("must be a whole number of at least 0, got 'x'")


@pytest.mark.parametrize("name", ["migration", "multi_thread_preprocessing"])
def test_photos_that_are_not_there_are_told_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for part in ("train", "val"):
        (tmp_path / "imagenet" / part).mkdir(parents=True)
    cases: list[tuple[list[str | Path], str]] = [
        (["--root-dir", tmp_path / "missing"], f"there is no folder '{tmp_path}/missing'"),
        (["--root-dir", tmp_path / "empty"], f"no photo (.jpeg, .jpg, .png) is in '{tmp_path}/empty' or below it"),
        (
            ["--root-dir", tmp_path / "imagenet", "--split", "nope"],
            f"'{tmp_path}/imagenet' has no part 'nope': choose one of train, val",
        ),
    ]
    for arguments, complaint in cases:
        with pytest.raises(SystemExit, match="2"):
            call(name, "--quick", *arguments)
        assert capsys.readouterr().err.splitlines()[-1] == f"{name}.py: error: {complaint}"


COMPARES = "This program compares with Pillow, which is missing"
MAKES = "image_classification.py: error: the demo needs Pillow to cut its photos"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("migration", COMPARES), ("multi_thread_preprocessing", COMPARES), ("image_classification", MAKES)],
)
def test_without_pillow_it_says_what_to_install(
    name: str, complaint: str, without_pillow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cache that has the photos needs no Pillow.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(without_pillow), *filter(None, sys.path)]))
    done = run(name, "--quick")
    assert done.returncode in (1, 2)
    assert done.stderr.splitlines()[-1].rstrip(".") == f"{complaint}: pip install 'spdl-turbo[demo]'"


def test_photos_of_ones_own_need_no_pillow(
    photos: Path, without_pillow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(without_pillow), *filter(None, sys.path)]))
    record = tmp_path / "record.json"
    done = run("image_classification", "--quick", "--json", record, "--photos", photos)
    assert done.returncode == 0, done.stderr
    assert json.loads(record.read_text())["rows"]


def test_demo_photos_that_cannot_be_fetched_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(SystemExit, match="2"):
        call("image_classification", "--quick")
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.startswith("image_classification.py: error: the demo's photos cannot be fetched with pip: ")


@pytest.mark.parametrize("name", [name for name in NAMES if (example_pages.RESULTS / f"{name}.json").exists()])
def test_no_two_lines_of_a_plot_share_a_colour(name: str) -> None:
    panels = importlib.import_module(name).panels(example_pages.recorded(name))
    colours = colours_of(panels)
    assert set(colours) == {line for panel in panels for line in panel.lines}
    assert len(set(colours.values())) == len(colours)


def test_a_terminal_has_one_line_that_moves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    assert list(progress.epochs(2)) == [0, 1]
    progress.tell("x" * 50)
    assert capsys.readouterr().err == f"\r\x1b[Kepoch 1 of 2\r\x1b[Kepoch 2 of 2\r\x1b[K\r\x1b[K{'x' * 19}"
