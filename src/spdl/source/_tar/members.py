"""Where the members of a tar archive lie, with the archive that this holds of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.io import TarIndex, tar_index
from spdl.io._archive.stored_index import stored_tar_index
from spdl.io._common.one_version import OneVersion
from spdl.source._records.contents import open_contents

if TYPE_CHECKING:
    from spdl.io._array.kept_arrays import CachePath
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place
    from spdl.store import Entry

__all__ = ["find_members"]


def find_members(place: Place, cache: CachePath, entry: Entry | None) -> tuple[Contents, TarIndex]:
    """Open an archive and return where its members lie, from what is kept of it or by its headers.

    Args:
        place: Where it is.
        cache: The folder that keeps the index of an archive in a store.
        entry: Which version of an object in a store it has been before, if it was opened before.

    Raises:
        FormatError: If this is no tar archive, is damaged, or is in a store and has changed.
        OSError: If it cannot be read.
    """
    if place.store is not None:
        archive = OneVersion(place.store, place.path, entry)
        archive.check(place.describe())
        return archive, stored_tar_index(archive, cache)
    while True:
        before = Path(place.path).stat()
        index = tar_index(place.path)
        contents = open_contents(place)
        # The file may have been replaced between the two calls.
        if os.path.samestat(before, Path(place.path).stat()):
            return contents, index
