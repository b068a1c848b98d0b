"""The private names that other packages use of `spdl.source`. They import no others."""

from __future__ import annotations

from spdl.source._labelled.class_folders import IMAGE_EXTENSIONS
from spdl.source._labelled.lists import Samples, fingerprint
from spdl.source._orders.mix_stages import progress_of, say_difference
from spdl.source._orders.mixed import packed_parts
from spdl.source._orders.order import random_order, refuse_batches
from spdl.source._orders.packed import count_documents, documents_of, lengths_of_order, rule_of
from spdl.source._orders.shares import EMPTY, Plan, Sharing
from spdl.source._orders.turns import digest_lengths
from spdl.source._record_source import Defect, apart, is_defect, name_of, read_apart
from spdl.source._samplers.distributed import find_in_torch, find_rank, warn_of_idle_rank
from spdl.source._samplers.epoch_sampler import continue_mix
from spdl.source._samplers.epoch_state import EpochState
from spdl.source._shards.parquet_tables import check_alike, count_nulls, distinct_values, open_columns, sizes_of
