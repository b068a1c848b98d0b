"""The soak benchmark of clips, with fewer files than its 100,000."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOAK = ROOT / "benchmarks" / "clip_soak.py"


@pytest.mark.long
@pytest.mark.usefixtures("clip")
def test_nothing_grows_and_nothing_is_left_open(tmp_path: Path) -> None:
    result = tmp_path / "soak.json"
    command = [sys.executable, str(SOAK), "--files", "1500", "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    # The script checks memory, descriptors and threads.
    assert done.returncode == 0, done.stdout + done.stderr
    failed = json.loads(result.read_text("utf-8"))["failed"]
    # Each way met damaged files and whole ones.
    ways = {name.split(":")[0] for name in failed}
    assert ways == {"batches", "load_video", "load_audio", "packets", "streaming", "VideoReader", "AudioReader"}
    assert 300 < sum(failed.values()) < 1100


def test_the_guide_names_the_recorded_memory() -> None:
    recorded = json.loads((SOAK.parent / "results" / "clip_soak.json").read_text("utf-8"))
    early, late = recorded["memory_mb"]
    said = " ".join((ROOT / "docs" / "video.md").read_text("utf-8").split())
    assert f"{early:.0f} MB of it belonged to no file in the second fifth of {recorded['files']:,} files" in said
    assert f"and {late:.0f} MB in the last" in said
