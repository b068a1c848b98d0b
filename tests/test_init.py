"""The top-level package: its version, and the cost of importing it."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spdl

SOURCE = Path(__file__).parent.parent / "src"


def run_python(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_version_is_that_of_our_distribution() -> None:
    assert spdl.__version__ == importlib.metadata.version("spdl-turbo")


def test_version_of_a_tree_that_is_not_installed() -> None:
    # -S leaves out site-packages, and with it all metadata.
    assert run_python("-S", "-c", "import spdl; print(spdl.__version__)") == "unknown"


def test_version_is_listed() -> None:
    assert "__version__" in dir(spdl)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'spdl' has no attribute 'pipelines'"):
        spdl.pipelines  # noqa: B018


@pytest.mark.parametrize("module", ["spdl", "spdl.pipeline"])
def test_import_loads_neither_numpy_nor_the_native_part(module: str) -> None:
    report = "print(*((name, getattr(m, '__file__', '')) for name, m in sys.modules.items()), sep='\\n')"
    loaded = run_python("-c", f"import sys, {module}; {report}").splitlines()
    assert not [line for line in loaded if line.startswith(("('numpy", "('spdl.io", "('spdl.cli"))]
    assert not [line for line in loaded if line.startswith("('spdl") and ".so'" in line]


def test_command_runs_as_a_module() -> None:
    assert run_python("-m", "spdl", "--version") == f"spdl-turbo {spdl.__version__}"
