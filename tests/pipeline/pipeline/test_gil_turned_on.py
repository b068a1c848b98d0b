"""The warning that names the module that has turned the GIL on. It needs a Python that is built to run without one."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

MODULE = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", NULL, 0, NULL};
PyMODINIT_FUNC PyInit_NAME(void) {
    PyObject* module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (DECLARES && module != NULL) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
"""
BUILD = (
    "import warnings\n"
    "from spdl.pipeline import PipelineBuilder\n"
    "with warnings.catch_warnings(record=True) as found:\n"
    "    warnings.simplefilter('always')\n"
    "    PipelineBuilder().add_source([1]).add_sink().build(num_threads=1)\n"
    "for warning in found:\n"
    "    print(warning.category.__name__, warning.lineno, warning.message)\n"
)

only_free_threaded = pytest.mark.skipif("t" not in sys.abiflags, reason="this Python always has the GIL")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two extension modules, of which one declares that it needs no GIL."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler to make the modules with")
    for name, declares in (("needs_gil", 0), ("needs_none", 1)):
        source = tmp_path / f"{name}.c"
        source.write_text(MODULE.replace("NAME", name))
        target = tmp_path / (name + sysconfig.get_config_var("EXT_SUFFIX"))
        include = f"-I{sysconfig.get_paths()['include']}"
        options = ["-shared", "-fPIC", f"-DDECLARES={declares}", include, "-o", str(target), str(source)]
        subprocess.run([compiler, *options], check=True, timeout=60)
    return tmp_path


def warnings_of(folder: Path, imports: str, *options: str) -> str:
    """Return what is warned of when a pipeline is built after these imports. Python's own warning goes to stderr."""
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{imports}\n{BUILD}"
    command = [sys.executable, *options, "-c", program]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


@only_free_threaded
def test_the_module_is_named(folder: Path) -> None:
    said = warnings_of(folder, "import needs_none, needs_gil")
    line = BUILD.splitlines().index("    PipelineBuilder().add_source([1]).add_sink().build(num_threads=1)") + 3
    assert said.startswith(f"RuntimeWarning {line} This Python can run without a GIL, but ")
    assert "needs_none" not in said
    assert "importing needs_gil has turned it on" in said


@only_free_threaded
def test_no_module_is_named_where_python_says_nothing(folder: Path) -> None:
    assert "but an import has turned it on" in warnings_of(folder, "import needs_none, needs_gil", "-W", "ignore")


@only_free_threaded
def test_nothing_is_said_without_a_gil(folder: Path) -> None:
    assert warnings_of(folder, "import needs_none") == ""
    assert warnings_of(folder, "import needs_gil", "-X", "gil=0") == ""


def test_nothing_is_said_where_the_user_wants_the_gil(folder: Path) -> None:
    # A Python that always has it does not know the other value.
    assert warnings_of(folder, "import needs_gil", "-X", "gil=1") == ""
    if "t" not in sys.abiflags:
        assert warnings_of(folder, "import needs_gil") == ""
