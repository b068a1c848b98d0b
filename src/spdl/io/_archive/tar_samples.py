"""Samples that an archive holds as one file for each part, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.io._common.format_error import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl._type_vars import T


KEY = "__key__"


def group_samples(members: Iterable[tuple[str, T]]) -> Iterator[dict[str, Any]]:
    """Group the members of an archive into samples, by WebDataset's convention.

    The key of a member is its name up to the first dot after the last slash. The text after that dot, in lower case, is
    the name of the part. Consecutive members with the same key make one sample. Members whose base name has no dot, or
    begins with one, are left out.

    Args:
        members: Names and contents, as `iter_tarfile` yields them.

    Returns:
        An iterator over the samples: a dict of contents by the name of the part, with the key as ``"__key__"``.

    Raises:
        FormatError: While iterating, if a sample has a part twice.

    Example:
        >>> for sample in group_samples(iter_tarfile(archive)):
        ...     print(sample["__key__"], sorted(sample), bytes(sample["txt"]))
        a ['__key__', 'cls', 'txt'] b'1'
        b ['__key__', 'txt'] b'2'
    """
    sample: dict[str, Any] = {}
    for name, content in members:
        start = name.rfind("/") + 1
        dot = name.find(".", start)
        if dot <= start:
            continue
        key, part = name[:dot], name[dot + 1 :].lower()
        if sample and sample[KEY] != key:
            yield sample
            sample = {}
        if not sample:
            sample[KEY] = key
        if part in sample:
            msg = f"the sample {key!r} has the part {part!r} twice, the second time as {name!r}"
            raise FormatError(msg)
        sample[part] = content
    if sample:
        yield sample
