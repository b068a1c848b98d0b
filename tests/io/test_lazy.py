"""Importing spdl.io costs no native code, and needs none."""

import subprocess
import sys


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_import_loads_neither_native_code_nor_numpy() -> None:
    program = (
        "import sys, spdl.io\n"
        "spdl.io.get_video_filter_desc(scale_width=8), spdl.io.demux_config(), dir(spdl.io)\n"
        "print([name for name in sys.modules if name in ('spdl.io._native', 'numpy', 'torch')])"
    )
    assert run(program).stdout == "[]\n"


def test_native_classes_are_loaded_when_asked_for() -> None:
    program = "import spdl.io; print(spdl.io.ImagePackets.__name__, spdl.io.CPUBuffer.__module__)"
    assert run(program).stdout == "ImagePackets spdl.io._native\n"


def test_unknown_names_are_attribute_errors() -> None:
    result = run("import spdl.io; spdl.io.no_such_thing")
    assert "AttributeError: module 'spdl.io' has no attribute 'no_such_thing'" in result.stderr


def test_without_the_native_part_the_import_works_and_the_call_says_what_to_do() -> None:
    program = (
        "import sys\n"
        "sys.modules['spdl.io._native'] = None\n"
        "import spdl.io\n"
        "try:\n"
        "    spdl.io.load_image(b'')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    result = run(program)
    assert "spdl.io's native part cannot be loaded" in result.stdout
    assert "pip install" in result.stdout
    assert result.stderr == ""
