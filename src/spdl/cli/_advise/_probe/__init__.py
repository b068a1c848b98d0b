"""The part of `spdl advise` that runs inside the job: it measures PyTorch's loaders and changes nothing else.

It is loaded by its path, as `_spdl_probe`, into whatever Python the job has. So it imports the standard library alone,
and from PyTorch only what the job has imported already. This module waits
until the job imports its loader.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


_MODULE = "torch.utils.data.dataloader"


def measure_when_imported() -> None:
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            vars(spec).update(loader=_Loader(spec.loader))
        return spec


class _Loader(Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        # Code that looks at the loader of a module (`inspect.getsource`) finds the real one's methods.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        try:
            from .patches import measure_loaders  # noqa: PLC0415 - most processes never get here.

            measure_loaders(module)
        except Exception as error:  # noqa: BLE001 - the job must run, whatever its PyTorch is.
            sys.stderr.write(f"spdl advise: the loaders of this PyTorch cannot be measured: {error!r}\n")
