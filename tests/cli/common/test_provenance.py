import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

import spdl
from spdl.cli._common.provenance import provenance

PACKAGE = Path(spdl.__file__).parent


def git(*arguments: str, folder: Path) -> str:
    person = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    command = ["git", *person, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_what_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path.home()
    monkeypatch.setattr(sys, "argv", ["/some/where/bin/spdl", "demo", "--json", f"{home}/my figures.json"])
    facts = provenance()
    assert facts["versions"] == facts["versions"] | {  # type: ignore[operator]
        "spdl-turbo": version("spdl-turbo"),
        "numpy": version("numpy"),
    }
    assert facts["command"] == f"{Path(sys.executable).name} spdl demo --json '~/my figures.json'"
    age = datetime.now(UTC) - datetime.fromisoformat(str(facts["date"]))
    assert 0 <= age.days < 1
    assert 0 < float(str(facts["cores"])) <= (os.cpu_count() or 1)
    assert json.loads(json.dumps(facts)) == facts


def test_the_commit_of_a_checkout() -> None:
    try:
        head = git("rev-parse", "HEAD", folder=PACKAGE)
        git("ls-files", "--error-unmatch", "__init__.py", folder=PACKAGE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the package does not run from a checkout")
    commit = str(provenance()["commit"]).removesuffix("-dirty")
    assert len(commit) >= 12
    assert head.startswith(commit)


def test_the_commit_of_another_project_is_not_ours(tmp_path: Path) -> None:
    git("init", "--quiet", folder=tmp_path)
    git("commit", "--quiet", "--allow-empty", "--message", "Theirs", folder=tmp_path)
    packages = tmp_path / "environment"
    shutil.copytree(PACKAGE, packages / "spdl", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import json, spdl.cli._common.provenance as it; print(json.dumps([it.__file__, it.provenance()['commit']]))"
    environment = os.environ | {"PYTHONPATH": str(packages)}
    done = subprocess.run(
        # Without site-packages, whose editable installation would lead back to the checkout.
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == [str(packages / "spdl" / "cli" / "_common" / "provenance.py"), None]
