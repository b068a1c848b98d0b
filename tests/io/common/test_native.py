"""Importing spdl.io loads no native code, and needs none."""

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import spdl.io

SOURCE = Path(spdl.io.__file__).parent.parent


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_import_loads_neither_native_code_nor_numpy() -> None:
    program = (
        "import sys, spdl.io\n"
        "spdl.io.get_video_filter_desc(scale_width=8), spdl.io.demux_config(), dir(spdl.io)\n"
        "print([name for name in sys.modules if name in ('numpy', 'torch')])\n"
        "print([line for line in open('/proc/self/maps') if 'spdl/io/_native.' in line])"
    )
    assert run(program).stdout == "[]\n[]\n"


def test_native_classes_are_loaded_when_asked_for() -> None:
    program = (
        "import spdl.io; print(spdl.io.ImagePackets.__name__, spdl.io.CPUBuffer.__module__.partition('._')[0])\n"
        "print(any('spdl/io/_native.' in line for line in open('/proc/self/maps')))"
    )
    assert run(program).stdout == "ImagePackets spdl.io\nTrue\n"


def test_unknown_names_are_attribute_errors() -> None:
    result = run("import spdl.io; spdl.io.no_such_thing")
    assert "AttributeError: module 'spdl.io' has no attribute 'no_such_thing'" in result.stderr


TRY = "import spdl.io\ntry:\n    spdl.io.load_image(b'')\nexcept ImportError as error:\n    print(error)\n"


def copy_package(folder: Path) -> Path:
    """Copy the Python files alone, as an installation for another interpreter has them."""
    package = folder / "spdl"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "_native.*"))
    metadata = folder / "spdl_turbo-1.2.3.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: spdl-turbo\nVersion: 1.2.3\n", encoding="utf-8")
    return package / "io"


def run_copy(folder: Path, program: str = TRY) -> str:
    # -S: the installation of this interpreter is out of the way, and with it the finder of an editable one.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-S", "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.stdout


def remedy() -> str:
    command = [sys.executable, "-m", "pip", "install", "--force-reinstall", "--no-deps", "spdl-turbo==1.2.3"]
    return f"Install it again with this command:\n\n    {shlex.join(command)}\n"


def test_without_the_native_part_the_import_works_and_the_call_says_what_to_do(tmp_path: Path) -> None:
    folder = copy_package(tmp_path)
    printed = run_copy(tmp_path)
    assert "spdl.io's native part cannot be loaded" in printed
    assert f"Tried {folder}, which holds nothing for cpython-" in printed
    assert "docs/install.md, 'Which wheel is for which Python'" in printed
    assert remedy() in printed


def test_without_the_native_part_there_is_nothing_of_cuda(tmp_path: Path) -> None:
    copy_package(tmp_path)
    program = (
        "from spdl.io.utils import built_with_cuda, built_with_nvcodec, built_with_nvjpeg\n"
        "print(built_with_cuda(), built_with_nvcodec(), built_with_nvjpeg())"
    )
    assert run_copy(tmp_path, program) == "False False False\n"


def test_a_native_part_for_another_python_is_named(tmp_path: Path) -> None:
    folder = copy_package(tmp_path)
    (folder / "_native.cpython-39-x86_64-linux-gnu.so").write_bytes(b"")
    printed = run_copy(tmp_path)
    assert f"Tried {folder}, which holds only _native.cpython-39-x86_64-linux-gnu.so for cpython-3" in printed
    assert remedy() in printed


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF" + bytes(200)])
def test_a_broken_native_part_is_named_with_what_the_system_says(tmp_path: Path, content: bytes) -> None:
    library = copy_package(tmp_path) / f"_native{EXTENSION_SUFFIXES[0]}"
    library.write_bytes(content)
    printed = run_copy(tmp_path)
    with pytest.raises(OSError, match=str(library)) as raised:
        ctypes.CDLL(str(library))
    assert f"Tried {library}: {raised.value}" in printed
    assert remedy() in printed
