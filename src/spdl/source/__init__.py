"""Sources: what to load and in which order.

Any iterable is a source. This package has those that many training jobs need: folders and lists of labelled media,
samplers that share a dataset among processes, and functions that shuffle, repeat and merge sources. All give the same
order for the same seed on every machine; for `DistributedRandomSampler`, the version of NumPy must be the same too.
"""

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._not_here import missing
from spdl.source._folders import ImageNet, LocalDirectory
from spdl.source._iterables import MergeIterator, repeat_source
from spdl.source._labelled.class_folders import ArrayFolder, AudioFolder, ImageFolder, VideoFolder
from spdl.source._labelled.lists import ArraySample, ImageList, ImageSample, MediaList, MediaSample
from spdl.source._samplers.distributed import DistributedDeterministicSampler
from spdl.source._samplers.shuffled import IterableWithShuffle, SizedIterable, SizedIterableWithShuffle, embed_shuffle

if TYPE_CHECKING:
    from spdl.source._file_records import FileRecord, Files
    from spdl.source._hub import HuggingFaceDataset
    from spdl.source._labelled.coco import CocoDetection
    from spdl.source._labelled.voc import VOCDetection, VOCSegmentation
    from spdl.source._orders.block_shuffled import BlockShuffledOrder
    from spdl.source._orders.bucketed import BucketedOrder
    from spdl.source._orders.mixed import MixedOrder
    from spdl.source._orders.order import EpochOrder, KeyedPermutation, SequentialOrder, ShuffledOrder
    from spdl.source._orders.packed import PackedOrder
    from spdl.source._orders.weighted import WeightedOrder
    from spdl.source._ranks import EqualSteps, agree_over_torch, shard
    from spdl.source._record_source import MappedRecords
    from spdl.source._refill import Refill, Refilled, replacements
    from spdl.source._samplers.epoch_sampler import EpochBatchSampler, EpochSampler
    from spdl.source._samplers.epoch_state import merge_states
    from spdl.source._samplers.random import DistributedRandomSampler
    from spdl.source._shards.lines import JsonLines, StreamedJsonLines
    from spdl.source._shards.litdata import LitDataShards
    from spdl.source._shards.mds import MDSShards
    from spdl.source._shards.parquet import ParquetFiles
    from spdl.source._shards.sharded import ShardFailure
    from spdl.source._shards.tar import TarShards
    from spdl.source._text.token_files import TokenFiles

__all__ = [
    "ArrayFolder",
    "ArraySample",
    "AudioFolder",
    "BlockShuffledOrder",
    "BucketedOrder",
    "CocoDetection",
    "DistributedDeterministicSampler",
    "DistributedRandomSampler",
    "EpochBatchSampler",
    "EpochOrder",
    "EpochSampler",
    "EqualSteps",
    "FileRecord",
    "Files",
    "HuggingFaceDataset",
    "ImageFolder",
    "ImageList",
    "ImageNet",
    "ImageSample",
    "IterableWithShuffle",
    "JsonLines",
    "KeyedPermutation",
    "LitDataShards",
    "LocalDirectory",
    "MDSShards",
    "MappedRecords",
    "MediaList",
    "MediaSample",
    "MergeIterator",
    "MixedOrder",
    "PackedOrder",
    "ParquetFiles",
    "Refill",
    "Refilled",
    "SequentialOrder",
    "ShardFailure",
    "ShuffledOrder",
    "SizedIterable",
    "SizedIterableWithShuffle",
    "StreamedJsonLines",
    "TarShards",
    "TokenFiles",
    "VOCDetection",
    "VOCSegmentation",
    "VideoFolder",
    "WeightedOrder",
    "agree_over_torch",
    "embed_shuffle",
    "merge_states",
    "repeat_source",
    "replacements",
    "shard",
]

# The modules of names that need numpy or spdl.io, which take longer to import than everything else here.
_MODULES = {
    "_file_records": ("FileRecord", "Files"),
    "_hub": ("HuggingFaceDataset",),
    "_labelled.coco": ("CocoDetection",),
    "_labelled.voc": ("VOCDetection", "VOCSegmentation"),
    "_orders.block_shuffled": ("BlockShuffledOrder",),
    "_orders.bucketed": ("BucketedOrder",),
    "_orders.mixed": ("MixedOrder",),
    "_orders.order": ("EpochOrder", "KeyedPermutation", "SequentialOrder", "ShuffledOrder"),
    "_orders.packed": ("PackedOrder",),
    "_orders.weighted": ("WeightedOrder",),
    "_ranks": ("EqualSteps", "agree_over_torch", "shard"),
    "_record_source": ("MappedRecords",),
    "_refill": ("Refill", "Refilled", "replacements"),
    "_samplers.epoch_sampler": ("EpochBatchSampler", "EpochSampler"),
    "_samplers.epoch_state": ("merge_states",),
    "_samplers.random": ("DistributedRandomSampler",),
    "_shards.lines": ("JsonLines", "StreamedJsonLines"),
    "_shards.litdata": ("LitDataShards",),
    "_shards.mds": ("MDSShards",),
    "_shards.parquet": ("ParquetFiles",),
    "_shards.sharded": ("ShardFailure",),
    "_shards.tar": ("TarShards",),
    "_text.token_files": ("TokenFiles",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULE_OF:
        import importlib  # noqa: PLC0415 - only once for each name.

        found = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)
