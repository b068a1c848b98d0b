"""Has the engine pack what batches are made of as soon as it can."""

import contextlib
from collections.abc import Iterator

from spdl.pipeline._engine import groups


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Have the origins of batches packed that are otherwise so large that no program here has one."""
    kept = groups.LISTED, groups._PACKED_AT_ONCE
    groups.LISTED = groups._PACKED_AT_ONCE = 1
    try:
        yield
    finally:
        groups.LISTED, groups._PACKED_AT_ONCE = kept
