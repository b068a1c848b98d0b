"""The build finds the Python for a wheel under its name, also with pyenv, or says what to do."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "bundle" / "python.sh"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}{'t' * ('t' in sys.abiflags)}"


def find(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{folder / 'shims'}:/usr/bin:/bin",
        "PYENV_ROOT": str(folder / "pyenv"),
        "SPDL_BUNDLE_CACHE": str(folder / "cache"),
    }
    return subprocess.run([str(SCRIPT), name], env=environment, check=False, capture_output=True, text=True)


def put_shim(folder: Path) -> None:
    shim = folder / "shims" / f"python{VERSION}"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\necho "pyenv: $0: command not found" >&2\nexit 127\n')
    shim.chmod(0o755)


def test_a_name_that_does_not_run_is_looked_for_under_pyenv(tmp_path: Path) -> None:
    put_shim(tmp_path)
    installed = tmp_path / "pyenv" / "versions" / f"{VERSION}.99" / "bin" / "python3"
    installed.parent.mkdir(parents=True)
    # A link would belong to another installation. The path that the Python runs from is printed.
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    installed.chmod(0o755)
    found = find(f"python{VERSION}", tmp_path)
    assert (found.returncode, found.stdout) == (0, f"{sys.executable}\n"), found.stderr


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find(sys.executable, tmp_path).stdout == f"{sys.executable}\n"


def test_one_that_is_nowhere_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    put_shim(tmp_path)
    for name in ("python9.9", str(tmp_path / "python")):
        found = find(name, tmp_path)
        assert (found.returncode, found.stdout) == (1, "")
        assert f"{name} does not run: install it, or give the path of a Python" in found.stderr
