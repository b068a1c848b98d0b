"""What is known against the bundled libraries is compared with their versions."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SBOM = [sys.executable, "-B", str(SCRIPTS / "bundle" / "sbom.py")]


def compare(tmp_path: Path, known: str, version: str = "7.1.5", *options: str) -> subprocess.CompletedProcess[str]:
    """Compare one library, ffmpeg, with a list of what is known."""
    path = tmp_path / "known.toml"
    path.write_text(known, encoding="utf-8")
    components = [{"name": "ffmpeg", "version": version}, {"name": "numpy"}]
    command = [sys.executable, str(SCRIPTS / "vulnerabilities.py"), "--list", str(path), *options]
    inside = json.dumps({"components": components})
    return subprocess.run(command, input=inside, capture_output=True, text=True, timeout=50, check=False)


def known(entry: str, date: str = "2001-02-03") -> str:
    return f"looked_up = {date}\n[ffmpeg]\nlooked_in = 'a test'\n[ffmpeg.known.CVE-1-2]\npart = 'a part'\n{entry}\n"


@pytest.mark.parametrize(
    ("entry", "affected", "others"),
    [
        ("", "7.1.5", []),
        ("fixed = ['8.1']", "7.1.5", ["8.1", "9.0"]),
        ("fixed = ['7.1.5', '8.0.2']", "7.1.4", ["7.1.5", "7.1.10", "8.0.2", "8.1"]),
        ("fixed = ['7.1.5', '8.0.2']", "8.0.1", []),
        ("fixed = ['7.1.5', '8.0.2']", "7.2", []),
        ("since = '7.1'\nuntil = '9.0.2'", "7.1", ["7.0.9", "9.0.3"]),
        ("since = '7.1'\nuntil = '9.0.2'", "9.0.2", []),
        ("since = '8.0'\nfixed = ['8.1.3']", "8.1.2", ["7.1.5"]),
    ],
)
def test_a_version_is_affected_or_not(tmp_path: Path, entry: str, affected: str, others: list[str]) -> None:
    refused = compare(tmp_path, known(entry), affected)
    assert refused.returncode == 1
    assert f"ffmpeg {affected}: CVE-1-2, a part; fixed in " in refused.stderr
    for version in others:
        assert compare(tmp_path, known(entry), version).returncode == 0


@pytest.mark.parametrize("why", ["not_built", "not_reached"])
def test_an_explanation_is_an_answer(tmp_path: Path, why: str) -> None:
    done = compare(tmp_path, known(f"{why} = 'the decoder of something else'"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 known vulnerabilities, and none in what is bundled (2001-02-03)\n"


def test_a_field_that_is_spelled_wrongly_is_no_answer(tmp_path: Path) -> None:
    refused = compare(tmp_path, known("not_build = 'the decoder'"))
    assert refused.returncode == 1
    assert "CVE-1-2 has a field not_build; there are fixed, not_built, not_reached, " in refused.stderr


def test_a_library_that_nobody_looked_up_is_refused(tmp_path: Path) -> None:
    refused = compare(tmp_path, "looked_up = 2001-02-03\n")
    assert refused.returncode == 1
    assert refused.stderr.startswith("ffmpeg 7.1.5: nobody has looked up what is known against it\n")


def test_a_library_that_was_not_looked_up_in_full_is_refused(tmp_path: Path) -> None:
    refused = compare(
        tmp_path, "looked_up = 2001-02-03\n[ffmpeg]\nlooked_in = 'a test'\nto_look_up = 'all since May'\n"
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("ffmpeg 7.1.5: still to look up: all since May\n")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("fixed = ['8.1']", "### Open in the bundled libraries\n\n- ffmpeg 7.1.5: CVE-1-2, a part; fixed in 8.1\n"),
        ("fixed = ['7.1.1']", ""),
    ],
)
def test_what_is_open_goes_into_the_notes_of_a_candidate(tmp_path: Path, entry: str, text: str) -> None:
    notes = tmp_path / "notes.md"
    done = compare(tmp_path, known(entry), "7.1.5", "--notes", str(notes))
    assert (done.returncode, done.stderr) == (0, "")
    assert notes.read_text(encoding="utf-8") == text


def test_a_release_refuses_an_old_list(tmp_path: Path) -> None:
    entry = "fixed = ['7.1.1']"
    old, new = known(entry), known(entry, "9999-01-01")
    refused = compare(tmp_path, old, "7.1.5", "--max-age", "60")
    assert refused.returncode == 1
    assert "known.toml is of 2001-02-03, " in refused.stderr
    assert " and a release needs one of 60 days at most" in refused.stderr
    assert compare(tmp_path, old).returncode == 0
    assert compare(tmp_path, new, "7.1.5", "--max-age", "60").returncode == 0


def test_a_release_asks_before_it_builds() -> None:
    lines = (SCRIPTS / "release.sh").read_text(encoding="utf-8").splitlines()
    asking = "python3 scripts/bundle/sbom.py | python3 scripts/vulnerabilities.py --max-age 60"
    asked = next(number for number, line in enumerate(lines) if line.startswith(asking))
    assert asked < next(number for number, line in enumerate(lines) if "scripts/bundle/wheel.sh" in line)


def test_everything_inside_was_looked_up() -> None:
    document = subprocess.run(SBOM, capture_output=True, text=True, timeout=50, check=True).stdout
    inside = {each["name"] for each in json.loads(document)["components"] if "version" in each}
    listed: dict[str, Any] = tomllib.loads((SCRIPTS / "vulnerabilities.toml").read_text(encoding="utf-8"))
    del listed["looked_up"]
    assert set(listed) == inside
    assert all(library["looked_in"] for library in listed.values())
