"""Where the members of a tar archive lie, with the archive that this holds of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.io import TarIndex, tar_index
from spdl.io._archive.stored_index import stored_tar_index
from spdl.source._records.contents import open_contents

if TYPE_CHECKING:
    from spdl.io._array.kept_arrays import CachePath
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place

__all__ = ["find_members"]


def find_members(place: Place, cache: CachePath) -> tuple[Contents, TarIndex]:
    """Open an archive and return where its members lie, from what is kept of it or by its headers.

    Raises:
        FormatError: If this is no tar archive, or is damaged.
        OSError: If it cannot be read.
    """
    if place.store is not None:
        return open_contents(place), stored_tar_index(place.store, place.path, cache)
    while True:
        before = Path(place.path).stat()
        index = tar_index(place.path)
        contents = open_contents(place)
        # The file may have been replaced between the two calls.
        if os.path.samestat(before, Path(place.path).stat()):
            return contents, index
