"""Measures the loaders of a job that `spdl advise` runs: its folder is the first of `PYTHONPATH` there.

Python imports the first module of this name when it starts. Afterwards the job has the search path and the
`sitecustomize` that it would have had without.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be imported in every process.
# The measuring code has a private name: the job's Python may have no spdl, or another one.
_PROBE = "_spdl_probe"


def _run_the_next_sitecustomize() -> None:
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        # What Python finds otherwise. It says nothing about this one.
        raise ImportError("there is no other sitecustomize", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start_probe(folder: str) -> None:
    probe = os.path.join(folder, "_probe")  # noqa: PTH118
    spec = spec_from_file_location(
        _PROBE,
        os.path.join(probe, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[probe],
    )
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules[_PROBE] = module
    spec.loader.exec_module(module)
    module.measure_when_imported()


sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]  # noqa: PTH100
if "SPDL_ADVISE" in os.environ:
    try:
        _start_probe(os.path.dirname(_FOLDER))  # noqa: PTH120
    except Exception as error:  # noqa: BLE001 - the job must run, whatever its Python is.
        sys.stderr.write(f"spdl advise: this process cannot be measured: {error!r}\n")
_run_the_next_sitecustomize()
