"""The head of a page, checked."""

from __future__ import annotations

import json

from spdl.pipeline._report.page_file import HEAD, MAGIC, VERSION, Layout, checksum
from spdl.pipeline._report.statistics import PageHead, unpack_head

__all__ = ["PageError", "parse_head"]

# No head is longer, and no pipeline has more parts or threads: a damaged page must not take all memory.
_MOST_TEXT = 1 << 20
_MOST_PARTS = 10_000
_MOST_ROWS = 100_000


class PageError(ValueError):
    """Raised if a file is no page, is damaged, or is of another version of the package.

    Example:
        >>> from pathlib import Path
        >>> from spdl.observe import ObservedPipeline, PageError
        >>> import spdl
        >>> try:
        ...     ObservedPipeline(Path(spdl.__file__))
        ... except PageError as error:
        ...     print(error)
        the file is no page of a pipeline
    """


def parse_head(head: bytes, size: int) -> tuple[PageHead, Layout]:
    """Return what the head of a page says, and where everything is in the page.

    Args:
        head: The first bytes of the file: all of it, if it is short.
        size: How many bytes the file has.

    Raises:
        PageError: If it is no page of this version, or damaged.
    """
    if len(head) < HEAD.size:
        raise PageError("the file is too short for a page")
    magic, version, crc, length, written_size = HEAD.unpack_from(head)
    if magic != MAGIC:
        raise PageError("the file is no page of a pipeline")
    if version != VERSION:
        raise PageError(f"the page has version {version}, and this package reads version {VERSION}: use the same one")
    text = head[HEAD.size : HEAD.size + length]
    if length > _MOST_TEXT or len(text) != length or checksum(0, text) != crc or written_size != size:
        raise PageError("the page's head is damaged")
    try:
        about = json.loads(text)
        sources, stages, rows = len(about["sources"]), len(about["stages"]), int(about["rows"])
        if not (0 <= rows <= _MOST_ROWS and sources + stages <= _MOST_PARTS):
            raise ValueError("more parts than a pipeline has")  # noqa: TRY301 - it is damage as any other.
        found, layout = unpack_head(about), Layout(length, sources, stages, rows)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise PageError(f"the page's head is damaged: {error!r}") from error
    if layout.size != size:
        raise PageError("the page has another size than its head says")
    return found, layout
