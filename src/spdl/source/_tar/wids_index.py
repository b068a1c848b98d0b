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
    try:
        return [(_archive(place, name, stores), count) for name in expand_braces("shards", url)]
    except ValueError as error:
        raise FormatError(f"{place}: the shard {url[:100]!r} cannot be read: {error}") from error


def _archive(place: Place, name: str, stores: Stores) -> Place:
    found = place.beside(name, stores)
    if "\0" in found.path:
        raise ValueError("its name has a zero character")
    if found.store is None:
        return found
    # A folder on this machine knows `..` as well.
    steps: list[str] = []
    for step in found.path.split("/"):
        if step == ".." and steps:
            steps.pop()
        elif step != ".":
            steps.append(step)
    if not steps or "" in steps or ".." in steps:
        raise ValueError(
            "it is outside of the store of this list, or a part of its path is empty. Name it from the folder of the "
            "list on, or by a whole URL"
        )
    return found._replace(path="/".join(steps))
