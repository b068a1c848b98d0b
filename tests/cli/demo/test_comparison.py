import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import PROGRAM, run
from tests.cli.wheels import Wheelhouse

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

QUICK = ["--seconds", "0.3", "--batch-size", "5", "--size", "32", "--rounds", "2", "--workers", "1"]


# Importing PyTorch takes far longer than loading a few photos.
WITHOUT_TORCH = "sys.modules['torch'] = None"


def bench(photos: Path, place: Path, *, before: str = "") -> tuple[dict[str, Any], str]:
    figures = place / "figures.json"
    arguments: list[str | Path] = ["bench", "images", photos, *QUICK, "--json", figures, "--report", place / "report"]
    done = run(*arguments, before=before)
    assert (done.returncode, done.stderr) == (0, "")
    comparison: dict[str, Any] = json.loads(figures.read_text())["comparison"]
    return comparison, done.stdout


def test_side_by_side(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    comparison, output = bench(photos, tmp_path)
    ours, torch = comparison["contenders"]
    assert [it["contender"] for it in (ours, torch)] == ["spdl-turbo", "torch"]
    assert [it["workers"] for it in (ours, torch)] == [1, 1]
    assert [len(it["turns"]) for it in (ours, torch)] == [2, 2]
    for contender in (ours, torch):
        rates = [turn["images"] / turn["seconds"] for turn in contender["turns"]]
        costs = [turn["images"] / turn["cpu_seconds"] for turn in contender["turns"]]
        assert contender["median"]["images_per_second"] == pytest.approx(np.median(rates))
        assert contender["median"]["images_per_cpu_second"] == pytest.approx(np.median(costs))
    better = torch["spdl_turbo_is_better_by"]
    for measure, ratio in better.items():
        one, other = ours["median"][measure], torch["median"][measure]
        assert ratio == pytest.approx(one / other if measure.startswith("images") else other / one)

    assert list(comparison["absent"]) == ["spdl 0.8.0"]
    lines = output.splitlines()
    assert sum(line.startswith("spdl 0.8.0 takes no part: pip cannot install spdl==0.8.0: ") for line in lines) == 1
    table = lines[lines.index("Side by side, medians of 2 turns") :]
    row = next(line for line in table if line.startswith("images/s"))
    assert row.split()[1] == f"{ours['median']['images_per_second']:,.0f}"
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["report.png"]


def test_a_peer_that_is_installed_but_does_not_run(photos: Path, tmp_path: Path, wheelhouse: Wheelhouse) -> None:
    wheelhouse.add("numpy", "1.0", {"numpy.py": b""})
    broken = b"raise ImportError('libavdevice.so.59: cannot open shared object file')"
    wheelhouse.add("spdl", "0.8.0", {"spdl/__init__.py": b"", "spdl/io.py": broken})
    comparison, output = bench(photos, tmp_path, before=WITHOUT_TORCH)
    assert "reference" not in [it["contender"] for it in comparison["contenders"]]
    reason = "ImportError: libavdevice.so.59: cannot open shared object file"
    assert comparison["absent"]["spdl 0.8.0"] == reason
    assert output.count(f"spdl 0.8.0 takes no part: {reason}\n") == 1


def test_without_any_peer_and_matplotlib(photos: Path, tmp_path: Path) -> None:
    figures, report = tmp_path / "figures.json", tmp_path / "report"
    arguments: list[str | Path] = ["bench", "images", photos, *QUICK, "--json", figures, "--report", report]
    done = run(*arguments, before="sys.modules['torch'] = sys.modules['matplotlib'] = None")
    assert (done.returncode, done.stderr) == (0, "")
    comparison = json.loads(figures.read_text())["comparison"]
    assert [it["contender"] for it in comparison["contenders"]] == ["spdl-turbo"]
    assert list(comparison["absent"]) == ["PyTorch DataLoader", "spdl 0.8.0"]
    assert f"did not write {report}/report.png: drawing the chart needs matplotlib" in done.stdout
    assert list(report.iterdir()) == []


def test_ctrl_c_keeps_the_turns_so_far(photos: Path, tmp_path: Path) -> None:
    arguments = [*QUICK, "--rounds", "500", "--json", str(tmp_path / "figures.json"), "--report", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=WITHOUT_TORCH), "bench", "images", str(photos), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C on a terminal reaches the whole group of processes.
        process_group=0,
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("round 1 of 500, images/s: spdl-turbo "):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "")
    assert "interrupted: the comparison holds the turns up to then" in output
    comparison = json.loads((tmp_path / "figures.json").read_text())["comparison"]
    turns = len(comparison["contenders"][0]["turns"])
    assert 1 <= turns < 500
    assert f"Side by side, medians of {turns} turn{'s' if turns > 1 else ''}\n" in output
    assert comparison["interrupted"]
