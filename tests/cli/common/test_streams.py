import shlex
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import COMMAND

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)


def run_in_shell(arguments: list[str], redirections: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join([*COMMAND, *arguments])} {redirections}"
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("redirections", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_run_with_closed_streams(redirections: str, photos: Path, tmp_path: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "0.2", "--json", "figures.json"]
    done = run_in_shell(arguments, redirections, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("images/s" in done.stdout) == (redirections == "2>&-")
    # No printed line ended up in the file that was opened first.
    assert (tmp_path / "figures.json").read_text().startswith("{")
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--help"], 0), (["--version"], 0), (["fly"], 2), (["bench", "images", "missing"], 2)]
)
def test_the_exit_status_with_closed_streams(arguments: list[str], status: int, tmp_path: Path) -> None:
    done = run_in_shell(arguments, ">&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_a_complaint_stays_out_of_the_output(tmp_path: Path) -> None:
    done = run_in_shell(["bench", "images", "missing"], "2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
