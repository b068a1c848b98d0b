"""Lists of tar archives as WebDataset's wids writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spdl.io import FormatError
from spdl.source._records.braces import expand_braces

if TYPE_CHECKING:
    from spdl.source._records.place import Place, Stores

__all__ = ["read_wids_index"]

# No archive has so many samples, and the sum of many such numbers is still a length.
_MOST = 1 << 40


def read_wids_index(place: Place) -> list[tuple[Place, int]]:
    """Return the archives that a list names, and how many samples each has.

    Names are relative to the folder of the list, unless they are URLs or absolute paths.

    Raises:
        FormatError: If it is no such list.
        OSError: If it cannot be read.
    """
    try:
        description: Any = json.loads(place.read())
    except ValueError as error:
        raise FormatError(f"{place} is no JSON: {error}") from error
    listed = description.get("shardlist") if isinstance(description, dict) else description
    if not isinstance(listed, list):
        keys = list(description) if isinstance(description, dict) else type(listed).__name__
        raise FormatError(f"{place} is no list of shards as wids has them: there is no 'shardlist' in {keys}")
    stores: Stores = {}
    return [each for shard in listed for each in _read_shard(place, shard, stores)]


def _read_shard(place: Place, shard: Any, stores: Stores) -> list[tuple[Place, int]]:
    url = shard.get("url") if isinstance(shard, dict) else None
    count = shard.get("nsamples") if isinstance(shard, dict) else None
    if not isinstance(url, str) or type(count) is not int or not 0 <= count < _MOST:
        raise FormatError(f"{place}: a shard has a 'url' and the number 'nsamples', got {str(shard)[:100]}")
    return [(place.beside(name, stores), count) for name in expand_braces("shards", url)]
