"""The private names of `spdl.io` that other packages use. They import no others."""

from __future__ import annotations

from spdl.io._archive.decompress import decompressed, is_compressed, is_zstd, zstd_frames
from spdl.io._archive.members import KEY, TarColumns, is_metadata, split_name
from spdl.io._archive.stored_index import CachePath, kept_arrays, stored_tar_index
from spdl.io._archive.tar_file import BEFORE, SUFFIX, has_header, is_index_of, not_there
from spdl.io._archive.tar_headers import BLOCK
from spdl.io._archive.tar_stream import BytesReader
from spdl.io._array.arrays import pack_columns, take_lists, take_rows
from spdl.io._av.time_window import parse_window
from spdl.io._common.errors import name_path
from spdl.io._common.inputs import (
    Readable,
    check_fetched,
    check_is_object,
    check_regular,
    is_url,
    map_regular,
    resolve,
    url_of,
)
from spdl.io._common.one_version import ChangedError, OneVersion, describe
from spdl.io._device.transfer import map_parts, map_tensors
from spdl.io._image.masks import load_mask_views
from spdl.io._image.options import PIXEL_FORMATS, check_pages, id_range
from spdl.io._image.views import (
    ImageView,
    LoadedViews,
    Move,
    Place,
    Size,
    erase_rectangles,
    load_image_views,
    make_pixel_augment,
    write_pictures,
)
from spdl.io._text.packing import (
    PackedRow,
    PackedRows,
    PackingCounts,
    PackingRule,
    check_too_long,
    select_rows,
    sum_counts,
)
from spdl.io._text.pad import Padding
