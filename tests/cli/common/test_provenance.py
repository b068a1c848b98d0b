import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import spdl
from spdl.cli import main

PACKAGE = Path(spdl.__file__).parent


def git(*arguments: str, folder: Path) -> str:
    person = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    command = ["git", *person, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def provenance(folder: Path) -> dict[str, Any]:
    """Return the facts that stand beside figures, of a job that has none."""
    assert main(["advise", "--json", str(folder / "figures.json"), "--", "true"]) == 0
    found: dict[str, Any] = json.loads((folder / "figures.json").read_text())
    return found


def test_what_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path.home()
    arguments = ["demo", "--json", f"{home}/my figures.json", str(home), f"{home}s/photos", "tmp"]
    monkeypatch.setattr(sys, "argv", ["/some/where/bin/spdl", *arguments])
    facts = provenance(tmp_path)
    assert facts["versions"] == facts["versions"] | {"spdl-turbo": version("spdl-turbo"), "numpy": version("numpy")}
    assert (
        facts["command"]
        == f"{Path(sys.executable).name} spdl demo --json '~/my figures.json' {home} {home}s/photos tmp"
    )
    age = datetime.now(UTC) - datetime.fromisoformat(str(facts["date"]))
    assert 0 <= age.days < 1
    assert 0 < float(str(facts["cores"])) <= (os.cpu_count() or 1)


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    try:
        head = git("rev-parse", "HEAD", folder=PACKAGE)
        git("ls-files", "--error-unmatch", "__init__.py", folder=PACKAGE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the package does not run from a checkout")
    commit = str(provenance(tmp_path)["commit"]).removesuffix("-dirty")
    assert len(commit) >= 12
    # Somebody may commit meanwhile.
    assert commit in {head[: len(commit)], git("rev-parse", "HEAD", folder=PACKAGE)[: len(commit)]}


def test_the_commit_of_another_project_is_not_ours(tmp_path: Path) -> None:
    git("init", "--quiet", folder=tmp_path)
    git("commit", "--quiet", "--allow-empty", "--message", "Theirs", folder=tmp_path)
    packages = tmp_path / "environment"
    shutil.copytree(PACKAGE, packages / "spdl", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys, spdl.cli; print(spdl.cli.__file__); sys.exit(spdl.cli.main())"
    environment = os.environ | {"PYTHONPATH": str(packages)}
    done = subprocess.run(
        # Without site-packages, whose editable installation would lead back to the checkout.
        [sys.executable, "-S", "-c", code, "advise", "--json", "figures.json", "--", "true"],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{packages / 'spdl' / 'cli' / '__init__.py'}\n"
    assert json.loads((tmp_path / "figures.json").read_text())["commit"] is None
