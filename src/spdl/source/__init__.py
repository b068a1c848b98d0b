"""Sources: what to load and in which order.

Any iterable is a source. This package has those that many training jobs need: folders and lists of labelled media,
samplers that share a dataset among processes, and functions that shuffle, repeat and merge sources. All give the same
order for the same seed on every machine; for `DistributedRandomSampler`, the version of NumPy must be the same too.
"""

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._not_here import missing
from spdl.source._folders.imagenet import ImageNet
from spdl.source._folders.local_directory import LocalDirectory
from spdl.source._iterables.merge_iterator import MergeIterator
from spdl.source._iterables.repeat_source import repeat_source
from spdl.source._labelled.array_folder import ArrayFolder
from spdl.source._labelled.image_folder import ImageFolder
from spdl.source._labelled.image_list import ImageList
from spdl.source._labelled.media_folder import AudioFolder, VideoFolder
from spdl.source._labelled.media_list import MediaList
from spdl.source._labelled.sample import ArraySample, ImageSample, MediaSample
from spdl.source._samplers.deterministic import DistributedDeterministicSampler
from spdl.source._samplers.embed_shuffle import embed_shuffle
from spdl.source._samplers.protocols import IterableWithShuffle, SizedIterable, SizedIterableWithShuffle

if TYPE_CHECKING:
    from spdl.source._files.files import FileRecord, Files
    from spdl.source._hub.hugging_face_dataset import HuggingFaceDataset
    from spdl.source._lines.json_lines import JsonLines
    from spdl.source._order.block_shuffled import BlockShuffledOrder
    from spdl.source._order.bucketed import BucketedOrder
    from spdl.source._order.epoch_order import EpochOrder
    from spdl.source._order.mixed import MixedOrder
    from spdl.source._order.permutation import KeyedPermutation
    from spdl.source._order.simple import SequentialOrder, ShuffledOrder
    from spdl.source._order.weighted import WeightedOrder
    from spdl.source._packed.litdata_shards import LitDataShards
    from spdl.source._packed.mds_shards import MDSShards
    from spdl.source._parquet.parquet_files import ParquetFiles
    from spdl.source._ranks.equal_steps import EqualSteps
    from spdl.source._ranks.sharded_iterable import shard
    from spdl.source._ranks.torch_agreement import agree_over_torch
    from spdl.source._records.left_out import ShardFailure
    from spdl.source._records.mapped_records import MappedRecords
    from spdl.source._refill.refill import Refill, Refilled, replacements
    from spdl.source._samplers.epoch_batch_sampler import EpochBatchSampler
    from spdl.source._samplers.epoch_sampler import EpochSampler
    from spdl.source._samplers.epoch_state import merge_states
    from spdl.source._samplers.random import DistributedRandomSampler
    from spdl.source._tar.tar_shards import TarShards

__all__ = [
    "ArrayFolder",
    "ArraySample",
    "AudioFolder",
    "BlockShuffledOrder",
    "BucketedOrder",
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
    "ParquetFiles",
    "Refill",
    "Refilled",
    "SequentialOrder",
    "ShardFailure",
    "ShuffledOrder",
    "SizedIterable",
    "SizedIterableWithShuffle",
    "TarShards",
    "VideoFolder",
    "WeightedOrder",
    "agree_over_torch",
    "embed_shuffle",
    "merge_states",
    "repeat_source",
    "replacements",
    "shard",
]

# Where to find what needs numpy or spdl.io, which take longer to import than everything else here.
_MODULES = {
    "WeightedOrder": "_order.weighted",
    "MixedOrder": "_order.mixed",
    "BucketedOrder": "_order.bucketed",
    "BlockShuffledOrder": "_order.block_shuffled",
    "DistributedRandomSampler": "_samplers.random",
    "EpochBatchSampler": "_samplers.epoch_batch_sampler",
    "EpochOrder": "_order.epoch_order",
    "EpochSampler": "_samplers.epoch_sampler",
    "EqualSteps": "_ranks.equal_steps",
    "FileRecord": "_files.files",
    "Files": "_files.files",
    "HuggingFaceDataset": "_hub.hugging_face_dataset",
    "JsonLines": "_lines.json_lines",
    "KeyedPermutation": "_order.permutation",
    "LitDataShards": "_packed.litdata_shards",
    "MDSShards": "_packed.mds_shards",
    "MappedRecords": "_records.mapped_records",
    "ParquetFiles": "_parquet.parquet_files",
    "Refill": "_refill.refill",
    "Refilled": "_refill.refill",
    "SequentialOrder": "_order.simple",
    "ShardFailure": "_records.left_out",
    "ShuffledOrder": "_order.simple",
    "TarShards": "_tar.tar_shards",
    "agree_over_torch": "_ranks.torch_agreement",
    "merge_states": "_samplers.epoch_state",
    "replacements": "_refill.refill",
    "shard": "_ranks.sharded_iterable",
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
