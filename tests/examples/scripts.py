"""Load the scripts that make the pages on the programs."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # Dataclasses look up their module. The script adds the programs' folder, which is already on the path.
        patch.setitem(sys.modules, name, module)
        patch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
        spec.loader.exec_module(module)
    return module
