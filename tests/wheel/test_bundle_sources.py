"""The sources that the wheel's libraries are built from are the pinned ones, or the build says so."""

import shutil
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts" / "bundle"


def fetch(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(root / "scripts" / "bundle" / "fetch.sh"), "zlib"]
    environment = {"PATH": "/usr/bin:/bin", "SPDL_BUNDLE_CACHE": str(root / "cache")}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


def test_a_changed_source_is_not_replaced_in_silence(tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "scripts" / "bundle")
    pins = tmp_path / "scripts" / "bundle" / "sources.txt"
    (entry,) = (line for line in pins.read_text(encoding="utf-8").splitlines() if line.startswith("zlib "))
    name, version, sha256, _, url = entry.split()
    archive = tmp_path / "sources" / url.rpartition("/")[2]
    archive.parent.mkdir()
    archive.write_bytes(b"changed by whoever has the right to")

    refused = fetch(tmp_path)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"{archive} is not what sources.txt pins (SHA-256 {sha256})" in refused.stderr

    own = subprocess.run(["sha256sum", archive], check=True, capture_output=True, text=True).stdout.split()[0]
    assert own in refused.stderr
    pins.write_text(pins.read_text(encoding="utf-8").replace(sha256, own), encoding="utf-8")
    taken = fetch(tmp_path)
    assert (taken.returncode, taken.stdout) == (0, f"{archive}\n"), (name, version, taken.stderr)
