"""Lists of tar archives as WebDataset's wids writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import show
from spdl.io import FormatError
from spdl.source._records.braces import expand_braces

if TYPE_CHECKING:
    from spdl.source._records.place import Place, Stores

__all__ = ["read_wids_index"]

# No archive has so many samples, and the sum of many such numbers is still a length.
_MOST = 1 << 40
_MOST_ARCHIVES = 1_000_000


def read_wids_index(place: Place) -> list[tuple[Place, int]]:
    """Return the archives that a list names, and how many samples each has.

    Names lead below the folder of the list; see `Place.below`.

    Raises:
        FormatError: If it is no such list.
        OSError: If it cannot be read.
    """
    description: Any = place.read_json()
    listed = description.get("shardlist") if isinstance(description, dict) else description
    if not isinstance(listed, list):
        keys = list(description) if isinstance(description, dict) else type(listed).__name__
        raise FormatError(f"{place} is no list of shards as wids has them: there is no 'shardlist' in {keys}")
    named: list[tuple[str, int]] = []
    for shard in listed:
        named += _read_shard(place, shard)
        if len(named) > _MOST_ARCHIVES:
            raise FormatError(f"{place}: its patterns stand for more than {_MOST_ARCHIVES} archives")
    stores: Stores = {}
    return [(place.below(name, stores), count) for name, count in named]


def _read_shard(place: Place, shard: Any) -> list[tuple[str, int]]:
    url = shard.get("url") if isinstance(shard, dict) else None
    count = shard.get("nsamples") if isinstance(shard, dict) else None
    if not isinstance(url, str) or type(count) is not int or not 0 <= count < _MOST:
        raise FormatError(f"{place}: a shard has a 'url' and the number 'nsamples', got {show(shard)}")
    try:
        return [(name, count) for name in expand_braces("shards", url)]
    except ValueError as error:
        raise FormatError(f"{place}: the shard {show(url)} cannot be read: {error}") from error
