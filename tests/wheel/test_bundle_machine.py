"""What builds for other machines says for which it cannot."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", [["machine.sh", "arm64", "true"], ["wheel.sh", "python3"]])
def test_machines_that_are_not_known_are_refused(tmp_path: Path, command: list[str]) -> None:
    script, *arguments = command
    environment = {**os.environ, "SPDL_BUNDLE_CACHE": str(tmp_path), "ARCH": "arm64"}
    result = subprocess.run(
        [ROOT / "scripts" / "bundle" / script, *arguments], env=environment, check=False, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr == "spdl bundle: cannot build for ARCH=arm64: known are x86_64 and aarch64\n"
