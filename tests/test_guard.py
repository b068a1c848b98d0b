"""The reference's distributions beside ours in one environment: the error says so, and its command repairs it."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

# These build a wheel and fill environments, which takes minutes on a slow machine.
slow = pytest.mark.timeout(600)


MIXED = "spdl_core 0.8.0, spdl_io 0.8.0 and spdl-turbo are installed in the same folder"


class Environment:
    """A virtual environment that holds nothing but pip, as a copy of one, since making one takes long."""

    def __init__(self, folder: Path, original: Path) -> None:
        self.folder = folder
        shutil.copytree(original, folder, symlinks=True)
        self.python = folder / "bin" / "python"
        self.command = folder / "bin" / "spdl"

    def install(self, *wheels: Path) -> None:
        self.run(self.python, "-m", "pip", "install", "--quiet", "--no-deps", *wheels).check_returncode()

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        # Away from the checkout, whose folders must not be importable, and without variables that affect Python.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(command, cwd=self.folder, env=clean, check=False, capture_output=True, text=True)

    def run_python(self, code: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-c", code)

    def mend(self, message: str) -> None:
        """Run the one command that a message gives."""
        commands = re.findall(r"^    (.+ -m pip .+)$", message, re.MULTILINE)
        assert len(commands) == 1, message
        self.run("sh", "-c", commands[0]).check_returncode()


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment to copy. Only its scripts hold its path, and pip is run as a module."""
    folder = tmp_path_factory.mktemp("original") / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def environment(tmp_path: Path, original: Path) -> Environment:
    return Environment(tmp_path / "environment", original)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel with spaces")
    if made := os.environ.get("SPDL_WHEEL"):
        return Path(shutil.copy(made, folder))
    # Use the checkout's own build folder, so that files the editable install has compiled are not compiled again.
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    # Another test process may do the same in that folder.
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "wheel-of-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("spdl_turbo-*.whl"))


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("reference")
    requirements = ["spdl_core==0.8.0", "spdl_io==0.8.0"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    fetched = subprocess.run([*command, *requirements], check=False, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"the package index has no {' '.join(requirements)} for this Python, or cannot be reached")
    return sorted(folder.glob("*.whl"))


def assert_whole(environment: Environment) -> None:
    whole = environment.run_python("import spdl.pipeline, spdl; print(spdl.__version__)")
    assert whole.stderr == ""
    assert environment.run(environment.command, "--version").stdout == f"spdl-turbo {whole.stdout}"
    assert environment.run(environment.python, "-m", "spdl", "--version").stdout == f"spdl-turbo {whole.stdout}"


@slow
def test_ours_alone_is_whole(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    assert_whole(environment)


@slow
def test_theirs_first(wheel: Path, reference: list[Path], environment: Environment) -> None:
    environment.install(*reference)
    environment.install(wheel)

    imported = environment.run_python("import spdl")
    assert imported.returncode == 1
    assert (
        "ImportError: spdl_core 0.8.0, spdl_io 0.8.0 and spdl-turbo are installed in the same folder" in imported.stderr
    )
    called = environment.run(environment.command)
    assert called.returncode == 1
    assert f"ImportError: {MIXED}" in called.stderr

    environment.mend(imported.stderr)
    assert_whole(environment)


# Tries every module by name, and prints those whose import does not raise the guard's error.
IMPORT_EACH = """
import importlib, sys
sys.path.append({packages!r})
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if "spdl_core 0.8.0" in str(error):
            continue
        print(name, repr(error))
    else:
        print(name, "was imported")
"""


def list_modules(wheel: Path) -> set[str]:
    files = [file for file in zipfile.ZipFile(wheel).namelist() if file.startswith("spdl/") and file.endswith(".py")]
    return {file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files}


@slow
def test_theirs_after_ours(wheel: Path, reference: list[Path], environment: Environment) -> None:
    environment.install(wheel)
    environment.install(*reference)

    overwritten = set().union(*map(list_modules, reference))
    # The command's stand-in exists to be imported by the reference's script, and complains when it is called.
    survivors = sorted(name for name in list_modules(wheel) - overwritten if not name.endswith("__main__"))
    assert "spdl.cli" in survivors
    # Our modules' dependencies lie in the environment that runs this test.
    code = IMPORT_EACH.format(names=survivors, packages=sysconfig.get_path("purelib"))
    imported = environment.run_python(code)
    assert (imported.stdout, imported.stderr) == ("", "")

    called = environment.run(environment.command)
    assert called.returncode == 1
    assert called.stderr.startswith(
        "spdl: spdl_core 0.8.0, spdl_io 0.8.0 and spdl-turbo are installed in the same folder"
    )

    environment.mend(called.stderr)
    assert_whole(environment)


@slow
def test_theirs_after_ours_and_removed_again(wheel: Path, reference: list[Path], environment: Environment) -> None:
    environment.install(wheel)
    environment.install(*reference)
    removal = environment.run(environment.python, "-m", "pip", "uninstall", "--yes", "spdl-core", "spdl-io")
    removal.check_returncode()

    imported = environment.run_python("import spdl.cli")
    assert imported.returncode == 1
    assert "ImportError: parts of spdl-turbo are missing from" in imported.stderr

    environment.mend(imported.stderr)
    assert_whole(environment)


ORIGINS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "index": (None, "spdl-turbo==1.2.3"),
    "wheel that is there": ({"url": "file://{here}/my%20wheel.whl", "archive_info": {}}, "'{here}/my wheel.whl'"),
    "wheel that is gone": ({"url": "file:///gone/spdl.whl", "archive_info": {}}, "spdl-turbo==1.2.3"),
    "checkout": ({"url": "file://{here}", "dir_info": {}}, "{here}"),
    "editable checkout": ({"url": "file://{here}", "dir_info": {"editable": True}}, "--editable {here}"),
    "archive": ({"url": "https://host/spdl.whl", "archive_info": {}}, "'spdl-turbo @ https://host/spdl.whl'"),
    "repository": (
        {"url": "https://host/spdl", "vcs_info": {"vcs": "git", "commit_id": "0f1e"}},
        "'spdl-turbo @ git+https://host/spdl@0f1e'",
    ),
    "folder of a repository": (
        {"url": "https://host/spdl", "vcs_info": {"vcs": "git", "commit_id": "0f1e"}, "subdirectory": "py"},
        "'spdl-turbo @ git+https://host/spdl@0f1e#subdirectory=py'",
    ),
}


@pytest.mark.parametrize("theirs", ["spdl_core", "spdl_io"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_remedy_installs_from_where_ours_came(tmp_path: Path, origin: str, theirs: str) -> None:
    record, expected = ORIGINS[origin]
    packages = tmp_path / "packages"
    shutil.copytree(ROOT / "src" / "spdl", packages / "spdl", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / f"{theirs}-0.8.0.dist-info").mkdir()
    (packages / "spdl_turbo-1.2.3.dist-info").mkdir()
    (tmp_path / "my wheel.whl").touch()
    if record is not None:
        text = json.dumps(record).replace("{here}", str(tmp_path))
        (packages / "spdl_turbo-1.2.3.dist-info" / "direct_url.json").write_text(text)

    command = [sys.executable, "-S", "-c", "import spdl"]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    result = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert f"ImportError: {theirs} 0.8.0 and spdl-turbo are installed in the same folder, {packages}" in result.stderr
    pip = f"{sys.executable} -m pip"
    expected = expected.format(here=tmp_path)
    assert (
        f"\n    {pip} uninstall --yes spdl spdl-core spdl-io && {pip} install --force-reinstall --no-deps {expected}\n"
    ) in result.stderr
    # A wheel that pip found in a folder by its name has the same record as one from an index.
    assert ("Add --find-links and the folder" in result.stderr) == (expected == "spdl-turbo==1.2.3")


def test_distributions_in_another_folder_do_no_harm(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(ROOT / "src" / "spdl", packages / "spdl", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "spdl_turbo-1.2.3.dist-info").mkdir()
    (elsewhere / "spdl_core-0.8.0.dist-info").mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{elsewhere}"}
    subprocess.run([sys.executable, "-S", "-c", "import spdl"], env=environment, check=True)


def test_distributions_beside_the_metadata_of_an_editable_install(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    (packages / "spdl_turbo-1.2.3.dist-info").mkdir(parents=True)
    (packages / "spdl_core-0.8.0.dist-info").mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{packages}"}
    command = [sys.executable, "-S", "-c", "import spdl"]
    result = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert f"ImportError: spdl_core 0.8.0 and spdl-turbo are installed in the same folder, {packages}" in result.stderr
