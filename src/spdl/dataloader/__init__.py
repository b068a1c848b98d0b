"""Ready-made loaders on top of `spdl.pipeline`.

`Pipeline` and `PipelineBuilder` are the classes of `spdl.pipeline`. `PyTorchDataLoader` is a class of PyTorch's, too:
PyTorch is imported when the name is first used.
"""

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._not_here import missing
from spdl.dataloader._dataloader import DataLoader
from spdl.dataloader._loader.batches import ClipBatch, ImageBatch, Jagged, LabelledBatch, SoundBatch, TableBatch
from spdl.dataloader._loader.failures import SampleFailure
from spdl.dataloader._wrappers import CacheDataLoader, MapIterator
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from spdl.dataloader._loader.batches import TextBatch
    from spdl.dataloader._media.array_loader import ArrayLoader, ArrayRows
    from spdl.dataloader._media.audio_loader import AudioLoader
    from spdl.dataloader._media.clip_loader import ClipLoader
    from spdl.dataloader._media.geometry import Geometry
    from spdl.dataloader._media.image_augment import ImageAugment
    from spdl.dataloader._media.image_loader import ImageLoader
    from spdl.dataloader._media.image_shards import ImageShards
    from spdl.dataloader._media.library_transforms import AlbumentationsTransform, TorchvisionTransform
    from spdl.dataloader._media.pixel_changes import RandAugment, TrivialAugment
    from spdl.dataloader._media.targets import Boxes, InstanceMasks, Keypoints, Mask, Polygons, Values
    from spdl.dataloader._pytorch.pytorch_loader import PyTorchDataLoader, get_pytorch_dataloader
    from spdl.dataloader._table.table_loader import TableLoader
    from spdl.dataloader._text.counts import TokenCounts
    from spdl.dataloader._text.pack import Pack
    from spdl.dataloader._text.text_loader import TextLoader, TextStatistics
    from spdl.dataloader._text.tokenize import Tokenize

__all__ = [
    "AlbumentationsTransform",
    "ArrayLoader",
    "ArrayRows",
    "AudioLoader",
    "Boxes",
    "CacheDataLoader",
    "ClipBatch",
    "ClipLoader",
    "DataLoader",
    "Geometry",
    "ImageAugment",
    "ImageBatch",
    "ImageLoader",
    "ImageShards",
    "InstanceMasks",
    "Jagged",
    "Keypoints",
    "LabelledBatch",
    "MapIterator",
    "Mask",
    "Pack",
    "Pipeline",
    "PipelineBuilder",
    "Polygons",
    "PyTorchDataLoader",
    "RandAugment",
    "SampleFailure",
    "SoundBatch",
    "TableBatch",
    "TableLoader",
    "TextBatch",
    "TextLoader",
    "TextStatistics",
    "TokenCounts",
    "Tokenize",
    "TorchvisionTransform",
    "TrivialAugment",
    "Values",
    "get_pytorch_dataloader",
]

# These need spdl.io or PyTorch, which take longer to import than everything else here.
_MODULES = {
    "_loader.batches": ("TextBatch",),
    "_media.array_loader": ("ArrayLoader", "ArrayRows"),
    "_media.audio_loader": ("AudioLoader",),
    "_media.clip_loader": ("ClipLoader",),
    "_media.geometry": ("Geometry",),
    "_media.image_augment": ("ImageAugment",),
    "_media.image_loader": ("ImageLoader",),
    "_media.image_shards": ("ImageShards",),
    "_media.library_transforms": ("AlbumentationsTransform", "TorchvisionTransform"),
    "_media.pixel_changes": ("RandAugment", "TrivialAugment"),
    "_media.targets": ("Boxes", "InstanceMasks", "Keypoints", "Mask", "Polygons", "Values"),
    "_pytorch.pytorch_loader": ("PyTorchDataLoader", "get_pytorch_dataloader"),
    "_table.table_loader": ("TableLoader",),
    "_text.counts": ("TokenCounts",),
    "_text.pack": ("Pack",),
    "_text.text_loader": ("TextLoader", "TextStatistics"),
    "_text.tokenize": ("Tokenize",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

_EXTRAS = {"torch": ("PyTorch", "torch"), "pyarrow": ("pyarrow", "parquet")}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise missing(__name__, name)
    from importlib import import_module  # noqa: PLC0415

    try:
        found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        title, extra = _EXTRAS[error.name]
        raise ImportError(
            f"{__name__}.{name} needs {title}. Install it with: pip install 'spdl-turbo[{extra}]'"
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
