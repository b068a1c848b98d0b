"""Ready-made loaders on top of `spdl.pipeline`.

`Pipeline` and `PipelineBuilder` are the classes of `spdl.pipeline`. `PyTorchDataLoader` is a class of PyTorch's, too:
PyTorch is imported when the name is first used.
"""

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._cache_dataloader import CacheDataLoader
from spdl.dataloader._dataloader import DataLoader
from spdl.dataloader._map_iterator import MapIterator
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from spdl.dataloader._pytorch.loader import PyTorchDataLoader

__all__ = ["CacheDataLoader", "DataLoader", "MapIterator", "Pipeline", "PipelineBuilder", "PyTorchDataLoader"]


def __getattr__(name: str) -> object:
    if name == "PyTorchDataLoader":
        try:
            from spdl.dataloader._pytorch.loader import PyTorchDataLoader  # noqa: PLC0415 - it imports torch.
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(f"spdl.dataloader.{name} needs PyTorch. Install it with: pip install torch") from error
        globals()[name] = PyTorchDataLoader
        return PyTorchDataLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
