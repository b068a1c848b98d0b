"""What accompanies a release says what is in it, and its checksums fit."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "release_files.py"
PINNED = [
    line.split()
    for line in (ROOT / "scripts/bundle/sources.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
VERSION = "0.1.0rc1"
WHEEL = f"spdl_turbo-{VERSION}-cp311-cp311-manylinux_2_28_x86_64.whl"


def write(folder: Path, *notes: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder), *map(str, notes)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def write_wheel(path: Path, inside: str) -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr(f"spdl_turbo-{VERSION}.dist-info/sboms/spdl_turbo.cdx.json", inside)


@pytest.fixture(scope="module")
def inside() -> str:
    """Return the list of what is inside, as it is put into wheels."""
    command = [sys.executable, "-B", str(ROOT / "scripts" / "bundle" / "sbom.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout


@pytest.fixture
def release(tmp_path: Path, inside: str) -> Path:
    write_wheel(tmp_path / WHEEL, inside)
    write_wheel(tmp_path / WHEEL.replace("cp311", "cp312"), inside)
    (tmp_path / f"spdl_turbo-{VERSION}.tar.gz").write_bytes(b"sources")
    done = write(tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_checksums_fit_and_find_a_change(release: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum")
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(command, cwd=release, capture_output=True, text=True, timeout=50, check=True)
    assert len(done.stdout.splitlines()) == 5
    (release / f"spdl_turbo-{VERSION}.tar.gz").write_bytes(b"other sources")
    assert subprocess.run(command, cwd=release, capture_output=True, timeout=50, check=False).returncode == 1


def test_the_list_has_each_library_with_its_licence_and_the_checksum_of_its_source(release: Path) -> None:
    found: Any = json.loads((release / f"spdl_turbo-{VERSION}-sbom.json").read_text(encoding="utf-8"))
    components = {each["name"]: each for each in found["components"]}
    assert set(components) == {name for name, *_ in PINNED if name != "python"} | {"numpy", "nanobind", "ziglang"}
    for name, version, sha256, _, url in PINNED:
        if name != "python":
            (source,) = components[name]["externalReferences"]
            assert components[name]["version"] == version
            assert source["url"] == url
            assert source["hashes"] == [{"alg": "SHA-256", "content": sha256}]
            assert components[name]["licenses"][0]["expression"]
    assert found["metadata"]["component"]["version"] == VERSION
    assert sorted(found["dependencies"][0]["dependsOn"]) == sorted(each["bom-ref"] for each in found["components"])


def test_wheels_with_other_libraries_are_no_release(release: Path, inside: str) -> None:
    write_wheel(release / WHEEL, inside.replace("libvpx", "libvpx2"))
    done = write(release)
    assert done.returncode == 1
    assert "the wheels of a release have the same libraries inside, but not these: " in done.stderr
    assert WHEEL in done.stderr


def test_the_notes_are_the_part_of_the_changelog(release: Path) -> None:
    text = (release / f"spdl_turbo-{VERSION}-notes.md").read_text(encoding="utf-8")
    assert text.startswith(f"## [{VERSION}]")
    assert len(re.findall("^## ", text, re.MULTILINE)) == 1
    assert text.strip() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_notes_of_a_candidate_end_with_what_is_open(release: Path, tmp_path: Path) -> None:
    notes = tmp_path / "open.md"
    notes.write_text("### Open\n\n- ffmpeg\n", encoding="utf-8")
    assert write(release, notes).returncode == 0
    text = (release / f"spdl_turbo-{VERSION}-notes.md").read_text(encoding="utf-8")
    assert text.endswith("\n\n### Open\n\n- ffmpeg\n")


def test_a_folder_without_wheels_is_refused(tmp_path: Path) -> None:
    done = write(tmp_path)
    assert done.returncode == 1
    assert "there is no wheel of version" in done.stderr
    assert list(tmp_path.iterdir()) == []
