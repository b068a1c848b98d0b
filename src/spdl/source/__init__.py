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
    "WeightedOrder": "_orders.weighted",
    "MixedOrder": "_orders.mixed",
    "BucketedOrder": "_orders.bucketed",
    "BlockShuffledOrder": "_orders.block_shuffled",
    "CocoDetection": "_labelled.coco",
    "DistributedRandomSampler": "_samplers.random",
    "EpochBatchSampler": "_samplers.epoch_sampler",
    "EpochOrder": "_orders.order",
    "EpochSampler": "_samplers.epoch_sampler",
    "EqualSteps": "_ranks",
    "FileRecord": "_file_records",
    "Files": "_file_records",
    "HuggingFaceDataset": "_hub",
    "JsonLines": "_shards.lines",
    "KeyedPermutation": "_orders.order",
    "LitDataShards": "_shards.litdata",
    "MDSShards": "_shards.mds",
    "MappedRecords": "_record_source",
    "PackedOrder": "_orders.packed",
    "ParquetFiles": "_shards.parquet",
    "Refill": "_refill",
    "Refilled": "_refill",
    "SequentialOrder": "_orders.order",
    "ShardFailure": "_shards.sharded",
    "ShuffledOrder": "_orders.order",
    "StreamedJsonLines": "_shards.lines",
    "TarShards": "_shards.tar",
    "TokenFiles": "_text.token_files",
    "VOCDetection": "_labelled.voc",
    "VOCSegmentation": "_labelled.voc",
    "agree_over_torch": "_ranks",
    "merge_states": "_samplers.epoch_state",
    "replacements": "_refill",
    "shard": "_ranks",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        import importlib  # noqa: PLC0415 - only once for each name.

        found = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)
